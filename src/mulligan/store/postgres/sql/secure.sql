-- Changes nothing, but has to be committed: a claim is not flushed to disk by itself. No indexed column is touched.
UPDATE mulligan_jobs
SET lease_until = lease_until
WHERE id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim AND state = 'running'
