-- Move queued jobs back to waiting, under the given gate or that of their first limit.
UPDATE mulligan_jobs
SET state = 'waiting', waiting_for = 'limit', gate = coalesce(json_extract(given.value, '$.gate'), {{limit_gate}}), is_limited = 0, updated_at = :now
FROM json_each(:jobs) AS given
WHERE mulligan_jobs.id = json_extract(given.value, '$.id') AND state = 'queued'
RETURNING mulligan_jobs.id AS id, kind, owner, attempt
