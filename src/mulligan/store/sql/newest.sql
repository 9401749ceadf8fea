-- When the oldest of the newest `count` jobs ended.
SELECT {{over_at}} AS since
FROM mulligan_jobs
WHERE state = :state
  AND state IN ('succeeded', 'failed', 'cancelled')
  AND {{over_at}} < 9223372036854775807
ORDER BY {{over_at}} DESC
LIMIT 1 OFFSET :count::bigint - 1
