-- Until the next period, or until the budget is raised. Written once.
UPDATE mulligan_jobs AS job
SET waiting_for = 'budget', due_at = given.due_at, updated_at = :now
FROM json_to_recordset(:jobs::json) AS given (id text, due_at bigint)
WHERE job.id = given.id AND job.state = 'waiting' AND (job.waiting_for, job.due_at) IS DISTINCT FROM ('budget', given.due_at)
