SELECT *
FROM mulligan_jobs
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
