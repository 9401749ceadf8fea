SELECT count(*) AS number
FROM mulligan_jobs
WHERE service <> '' AND failures > 0 AND state IN ('queued', 'running') AND service = :service
