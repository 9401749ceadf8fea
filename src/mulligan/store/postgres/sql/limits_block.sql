-- Move queued jobs back to waiting, under the given gate or that of their first limit.
UPDATE mulligan_jobs AS job
SET state = 'waiting', waiting_for = 'limit', gate = coalesce(given.gate, {{limit_gate}}), is_limited = false, updated_at = :now
FROM json_to_recordset(:jobs::json) AS given (id text, gate text)
WHERE job.id = given.id AND job.state = 'queued'
RETURNING job.id, job.kind, job.owner, job.attempt
