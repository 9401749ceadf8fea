-- Jobs that are over and hold no dedupe key, the newest first. The conditions are fixed texts chosen by the filter.
SELECT id
FROM mulligan_jobs
WHERE {conditions}
  AND +state IN ('succeeded', 'failed', 'cancelled') AND finished_at <= :before
  AND (state <> 'succeeded' OR dedupe_scope <> 'succeeded' OR dedupe_key IS NULL)
  -- Members of a batch that is not over are still wanted.
  AND (batch IS NULL OR batch NOT IN (SELECT id FROM mulligan_batches WHERE state IN ('draft', 'processing')))
  AND coalesce(dedupe_until, 0) <= :now
ORDER BY id DESC
LIMIT :limit
