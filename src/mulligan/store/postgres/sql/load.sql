SELECT *
FROM mulligan_jobs
WHERE id = ANY (:ids::text[])
