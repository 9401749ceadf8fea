-- Admit jobs, each with a slot if a limit applies to it.
UPDATE mulligan_jobs
SET state = :queued, gate = NULL, waiting_for = NULL, is_limited = json_extract(given.value, '$.is_limited'), queued_at = :now, updated_at = :now
FROM json_each(:jobs) AS given
WHERE mulligan_jobs.id = json_extract(given.value, '$.id') AND state = 'waiting'
RETURNING mulligan_jobs.id AS id, kind, owner, attempt
