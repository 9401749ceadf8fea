-- The oldest jobs in a state, by the index `mulligan_jobs_over`, whose condition is repeated here literally. The state
-- is bound in a subquery: SQLite would plan again each time, to check whether it fits a partial index.
SELECT id
FROM mulligan_jobs
WHERE state = (SELECT :state) AND {{over_at}} < :before
  AND state IN ('succeeded', 'failed', 'cancelled')
  -- Members of a batch that has not settled are kept.
  AND (batch IS NULL OR batch NOT IN (SELECT id FROM mulligan_batches WHERE state IN ('draft', 'processing')))
ORDER BY {{over_at}}
LIMIT :limit
