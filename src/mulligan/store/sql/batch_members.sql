SELECT count(*) AS number
FROM mulligan_jobs
WHERE batch = :id
