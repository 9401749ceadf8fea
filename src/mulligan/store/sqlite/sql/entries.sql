-- What the built-in projections need of each event: when a started job became ready, and the version that failed.
SELECT event.position, event.type, event.job, event.kind, event.owner, event.attempt, event.at, event.code,
    job.service, job.cost,
    CASE
        WHEN event.attempt > 0 OR event.code IS NOT NULL
          OR event.type IN ('service.opened', 'service.half_opened', 'service.closed', 'service.forced')
        THEN event.data
    END AS data,
    CASE WHEN event.type = 'job.started' THEN (
        SELECT ready.at
        FROM mulligan_events AS ready
        WHERE ready.job = event.job AND ready.position < event.position
        ORDER BY ready.position DESC
        LIMIT 1
    ) END AS ready_at,
    CASE WHEN event.code IS NOT NULL AND event.attempt > 0 THEN (
        SELECT start.data
        FROM mulligan_events AS start
        WHERE start.job = event.job AND start.position < event.position AND start.type = 'job.started'
          AND start.attempt = event.attempt
        ORDER BY start.position DESC
        LIMIT 1
    ) END AS start_data
FROM (
    SELECT *
    FROM mulligan_events AS event
    WHERE event.position > :after AND event.position <= :until AND {conditions}
    ORDER BY event.position
    LIMIT :limit
) AS event
LEFT JOIN mulligan_jobs AS job ON job.id = event.job
ORDER BY event.position
