SELECT id, attempt, leased_by, claim
FROM mulligan_jobs
WHERE state = 'running' AND leased_by = :incarnation AND cancel_requested
