SELECT queue, kind, count(*) AS number, min(coalesce(queued_at, updated_at)) AS since
FROM mulligan_jobs
WHERE state = 'queued'
GROUP BY queue, kind
ORDER BY queue, kind
