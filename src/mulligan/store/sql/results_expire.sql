-- Also those that ended at the same moment as the last one of the page.
UPDATE mulligan_jobs
SET result = NULL, result_expired_at = :at, updated_at = :at
WHERE state = 'succeeded' AND state IN ('succeeded', 'failed', 'cancelled')
  AND {{over_at}} > :position AND {{over_at}} <= :last
  AND result IS NOT NULL AND result <> 'null'
RETURNING id, kind, owner, attempt
