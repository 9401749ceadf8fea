-- Admit jobs, each with a slot if a limit applies to it.
UPDATE mulligan_jobs AS job
SET state = :queued, gate = NULL, waiting_for = NULL, is_limited = given.is_limited, queued_at = :now, updated_at = :now
FROM json_to_recordset(:jobs::json) AS given (id text, is_limited boolean)
WHERE job.id = given.id AND job.state = 'waiting'
RETURNING job.id, job.kind, job.owner, job.attempt
