-- Those of these jobs that are still ended. The plus keeps SQLite from scanning all ended jobs.
SELECT id
FROM mulligan_jobs
WHERE id IN (SELECT value FROM json_each(:ids))
  AND +state IN ('succeeded', 'failed', 'cancelled') AND finished_at <= :before
  AND (state <> 'succeeded' OR dedupe_scope <> 'succeeded' OR dedupe_key IS NULL)
  -- Members of a batch that has not settled are kept.
  AND (batch IS NULL OR batch NOT IN (SELECT id FROM mulligan_batches WHERE state IN ('draft', 'processing')))
  AND coalesce(dedupe_until, 0) <= :now
