-- The oldest of a state, by the index `mulligan_jobs_over`: its condition is repeated here word for word. The state is bound
-- in a query of its own: SQLite would make the plan anew each time, to see whether it fits a partial index.
SELECT id
FROM mulligan_jobs
WHERE state = (SELECT :state) AND max(finished_at, coalesce(dedupe_until, 0)) < :before
  AND state IN ('succeeded', 'failed', 'cancelled')
  AND (state <> 'succeeded' OR dedupe_scope <> 'succeeded' OR dedupe_key IS NULL)
  -- Members of a batch that is not over are still wanted.
  AND (batch IS NULL OR batch NOT IN (SELECT id FROM mulligan_batches WHERE state IN ('draft', 'processing')))
ORDER BY max(finished_at, coalesce(dedupe_until, 0))
LIMIT :limit
