-- Block jobs under another gate. That is not visible on a job, so it is no change of it.
UPDATE mulligan_jobs
SET gate = json_extract(said.value, '$.gate')
FROM json_each(:jobs) AS said
WHERE mulligan_jobs.id = json_extract(said.value, '$.id') AND state = 'waiting'
