-- What the built-in projections need of each event: when a started job became ready, and the version that failed.
SELECT event.xid::text::bigint + (SELECT base FROM mulligan_log) AS position, event.type, event.job, event.kind, event.owner, event.attempt,
    event.at, event.code, job.service, job.cost,
    CASE
        WHEN event.attempt > 0 OR event.code IS NOT NULL
          OR event.type IN ('service.opened', 'service.half_opened', 'service.closed', 'service.forced')
        THEN event.data
    END AS data,
    CASE WHEN event.type = 'job.started' THEN (
        SELECT ready.at
        FROM mulligan_events AS ready
        WHERE ready.job = event.job AND ready.seq < event.seq
        ORDER BY ready.seq DESC
        LIMIT 1
    ) END AS ready_at,
    CASE WHEN event.code IS NOT NULL AND event.attempt > 0 THEN (
        SELECT start.data
        FROM mulligan_events AS start
        WHERE start.job = event.job AND start.seq < event.seq AND start.type = 'job.started'
          AND start.attempt = event.attempt
        ORDER BY start.seq DESC
        LIMIT 1
    ) END AS start_data
FROM (
    SELECT *
    FROM mulligan_events AS event
    WHERE event.xid > (SELECT greatest(:after::bigint - base, 0)::text::xid8 FROM mulligan_log)
      AND event.xid <= (SELECT greatest(:until::bigint - base, 0)::text::xid8 FROM mulligan_log)
      AND {conditions}
    ORDER BY event.xid, event.seq
    LIMIT :limit
) AS event
{{event_job}}
ORDER BY event.xid, event.seq
