-- When the oldest of the newest `count` jobs ended.
SELECT greatest(finished_at, dedupe_until) AS since
FROM mulligan_jobs
WHERE state = :state
  AND state IN ('succeeded', 'failed', 'cancelled')
  AND (state <> 'succeeded' OR dedupe_scope <> 'succeeded' OR dedupe_key IS NULL)
ORDER BY greatest(finished_at, dedupe_until) DESC
LIMIT 1 OFFSET :count::bigint - 1
