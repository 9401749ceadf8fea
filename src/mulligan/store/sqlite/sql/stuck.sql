-- There are never more running jobs than slots in the fleet: all of them are looked at.
SELECT *
FROM mulligan_jobs
WHERE state = 'running' AND last_attempt_at + max(coalesce(timeout, 0), :after) < :now
  AND (:job IS NULL OR id = :job) AND (:owner IS NULL OR owner = :owner)
ORDER BY last_attempt_at
LIMIT :limit
