-- The rows of a claim whose reply was lost.
SELECT *
FROM mulligan_jobs
WHERE state = 'running' AND leased_by = :incarnation AND claim = :claim
