-- Block jobs under another gate. That is not visible on a job, so it is no change of it.
UPDATE mulligan_jobs AS job
SET gate = given.gate
FROM json_to_recordset(:jobs::json) AS given (id text, gate text)
WHERE job.id = given.id AND job.state = 'waiting'
