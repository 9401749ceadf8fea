-- The oldest jobs in a state, by the index `mulligan_jobs_over`, whose condition is repeated here literally.
SELECT id
FROM mulligan_jobs
WHERE state = :state AND {{over_at}} < :before
  AND state IN ('succeeded', 'failed', 'cancelled')
  -- Members of a batch that has not settled are kept.
  AND (batch IS NULL OR batch NOT IN (SELECT id FROM mulligan_batches WHERE state IN ('draft', 'processing')))
ORDER BY {{over_at}}
LIMIT :limit
FOR UPDATE SKIP LOCKED
