-- There are never more running jobs than slots of all workers, so all of them are read.
SELECT *
FROM mulligan_jobs
WHERE state = 'running'
  AND last_attempt_at + greatest(coalesce(timeout, 0), :after) < {{clock}}
  AND (:job::text IS NULL OR id = :job) AND (:owner::text IS NULL OR owner = :owner)
ORDER BY last_attempt_at
LIMIT :limit
