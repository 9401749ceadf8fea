-- To wait under another gate.
UPDATE mulligan_jobs
SET gate = json_extract(said.value, '$.gate'), updated_at = :now
FROM json_each(:jobs) AS said
WHERE mulligan_jobs.id = json_extract(said.value, '$.id') AND state = 'waiting'
