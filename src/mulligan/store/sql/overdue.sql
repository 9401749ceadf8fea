SELECT *
FROM mulligan_jobs
WHERE state = 'running' AND lease_until < {{clock}} AND leased_by <> :besides
ORDER BY lease_until
LIMIT :limit
