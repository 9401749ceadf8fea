-- Ended jobs that hold no dedupe key, the newest first. The conditions are constants chosen by the filter.
SELECT id
FROM mulligan_jobs
WHERE {conditions}
  AND +state IN ('succeeded', 'failed', 'cancelled') AND finished_at <= :before
  AND (state <> 'succeeded' OR dedupe_scope <> 'succeeded' OR dedupe_key IS NULL)
  -- Members of a batch that has not settled are kept.
  AND (batch IS NULL OR batch NOT IN (SELECT id FROM mulligan_batches WHERE state IN ('draft', 'processing')))
  AND coalesce(dedupe_until, 0) <= :now
ORDER BY id DESC
LIMIT :limit
