-- Jobs queued before there was this limit, to be blocked. Waits for those that are being claimed.
SELECT id
FROM mulligan_jobs
WHERE state = 'queued' AND NOT is_limited
  AND {{limit_covers}}
LIMIT :limit
FOR UPDATE
