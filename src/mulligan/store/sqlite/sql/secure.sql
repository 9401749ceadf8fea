-- Whether the lease of this fence is still held.
SELECT 1
FROM mulligan_jobs
WHERE id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim AND state = 'running'
