-- To wait under another gate.
UPDATE mulligan_jobs AS job
SET gate = said.gate, updated_at = :now
FROM json_to_recordset(:jobs::json) AS said (id text, gate text)
WHERE job.id = said.id AND job.state = 'waiting'
