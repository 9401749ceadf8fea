SELECT *
FROM mulligan_jobs
WHERE id = :id AND (:owner IS NULL OR owner = :owner)
