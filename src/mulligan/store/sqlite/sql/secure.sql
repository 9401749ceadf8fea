-- Whether the holder of this fence still holds the job.
SELECT 1
FROM mulligan_jobs
WHERE id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim AND state = 'running'
