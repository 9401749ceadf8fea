-- The lanes with ready jobs, by a loose index scan: one seek per lane, not one per job.
WITH RECURSIVE lane (queue, kind, service) AS (
    (
        SELECT queue, kind, service
        FROM mulligan_jobs
        WHERE state = 'queued'
        ORDER BY queue, kind, service
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.kind, following.service
    FROM lane
    CROSS JOIN LATERAL (
        SELECT queue, kind, service
        FROM mulligan_jobs
        WHERE state = 'queued' AND (queue, kind, service) > (lane.queue, lane.kind, lane.service)
        ORDER BY queue, kind, service
        LIMIT 1
    ) AS following
)
