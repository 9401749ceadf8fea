-- When the oldest of the newest `count` jobs ended.
SELECT max(finished_at, coalesce(dedupe_until, 0)) AS since
FROM mulligan_jobs
WHERE state = :state
  AND state IN ('succeeded', 'failed', 'cancelled')
  AND (state <> 'succeeded' OR dedupe_scope <> 'succeeded' OR dedupe_key IS NULL)
ORDER BY max(finished_at, coalesce(dedupe_until, 0)) DESC
LIMIT 1 OFFSET :count - 1
