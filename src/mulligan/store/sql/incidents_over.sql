-- Failures that have not recurred for long; or for a while, and all their jobs were retried.
SELECT *
FROM mulligan_incidents
WHERE error_group IS NOT NULL AND last_at < {{clock}} - :pause AND (
    last_at < {{clock}} - :quiet
    OR type = 'job.failed' AND NOT EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE mulligan_jobs.error_group = mulligan_incidents.error_group AND mulligan_jobs.state = 'failed'
            AND mulligan_jobs.owner = mulligan_incidents.owner
    )
)
ORDER BY last_at
LIMIT :limit
