-- Block jobs under another gate. That is not visible on a job, so it is no change of it.
UPDATE mulligan_jobs
SET gate = json_extract(given.value, '$.gate')
FROM json_each(:jobs) AS given
WHERE mulligan_jobs.id = json_extract(given.value, '$.id') AND state = 'waiting'
