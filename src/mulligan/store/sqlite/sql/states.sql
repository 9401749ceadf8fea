SELECT id, state
FROM mulligan_jobs
WHERE id IN (SELECT value FROM json_each(:ids))
