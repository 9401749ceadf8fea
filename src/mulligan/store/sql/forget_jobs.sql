-- Ended jobs of an owner. Neither a dedupe key nor a batch keeps them.
SELECT id
FROM mulligan_jobs
WHERE owner = :owner AND owner <> '' AND state IN ('succeeded', 'failed', 'cancelled')
ORDER BY id
LIMIT :limit
FOR UPDATE SKIP LOCKED
