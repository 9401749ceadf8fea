-- For a move by hand: whoever comes second looks again, and sees what the first one did.
SELECT *
FROM mulligan_jobs
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
FOR UPDATE
