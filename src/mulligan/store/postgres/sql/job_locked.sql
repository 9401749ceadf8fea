-- For a manual move: a concurrent second one waits, then sees what the first one did.
SELECT *
FROM mulligan_jobs
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
FOR UPDATE
