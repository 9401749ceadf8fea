-- There are never more running jobs than slots of all workers, so all of them are read.
SELECT id, progress, progress_text, updated_at, kind, owner, batch
FROM mulligan_jobs
WHERE state = 'running' AND updated_at > :since AND (progress > 0 OR progress_text <> '')
  AND (:job::text IS NULL OR id = :job) AND (:owner::text IS NULL OR owner = :owner)
  AND (:batch::text IS NULL OR batch = :batch)
ORDER BY updated_at, id
LIMIT :limit
