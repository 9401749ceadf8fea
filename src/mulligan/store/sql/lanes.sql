SELECT queue, kind, false AS is_misfit, count(*) AS number, min(coalesce(queued_at, updated_at)) AS since
FROM mulligan_jobs
WHERE state = 'queued'
GROUP BY queue, kind
UNION ALL
SELECT queue, kind, true, count(*), min(coalesce(queued_at, updated_at))
FROM mulligan_jobs
WHERE state = 'waiting' AND gate IS NULL AND waiting_for = 'another version'
GROUP BY queue, kind
ORDER BY queue, kind
