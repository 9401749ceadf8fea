-- The worker that settled this attempt, if any.
SELECT kind, owner, attempt, settled_attempt, settled_by
FROM mulligan_jobs
WHERE id = :id
