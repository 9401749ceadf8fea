-- Changes nothing, but the commit flushes the claim to disk, which it does not do by itself. No indexed column changes.
UPDATE mulligan_jobs
SET lease_until = lease_until
WHERE id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim AND state = 'running'
