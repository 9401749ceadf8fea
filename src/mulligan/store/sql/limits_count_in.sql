-- Jobs that were running before there was this limit take a slot too.
UPDATE mulligan_jobs
SET is_limited = true
WHERE state = 'running' AND NOT is_limited
  AND {{limit_covers}}
