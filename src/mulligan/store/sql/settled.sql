-- Who settled this attempt, if anybody did.
SELECT kind, owner, attempt, settled_attempt, settled_by
FROM mulligan_jobs
WHERE id = :id
