SELECT count(*) AS number
FROM mulligan_jobs
WHERE state = 'running' AND service <> '' AND service = :service AND service_epoch = :epoch
