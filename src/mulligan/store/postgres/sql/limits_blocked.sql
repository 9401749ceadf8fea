-- Jobs that take a slot and cannot be claimed, because of their service or a pause. By the services of jobs that take a
-- slot, in a loose index scan: thousands without a slot may be blocked too.
WITH RECURSIVE served (service) AS (
    SELECT (
        SELECT service
        FROM mulligan_jobs
        WHERE is_limited AND state = 'queued' AND service <> ''
        ORDER BY service
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT service
        FROM mulligan_jobs
        WHERE is_limited AND state = 'queued' AND service <> '' AND service > served.service
        ORDER BY service
        LIMIT 1
    )
    FROM served
    WHERE served.service IS NOT NULL
), unserved AS (
    SELECT job.id, 'limit/service/' || served.service AS held
    FROM served
    CROSS JOIN LATERAL (
        SELECT name
        FROM mulligan_services
        WHERE name = served.service AND is_restricted AND ask_at > :now AND ask_at - hold <= :now
        LIMIT 1
    ) AS service
    CROSS JOIN LATERAL (
        SELECT id
        FROM mulligan_jobs
        WHERE is_limited AND state = 'queued' AND service <> '' AND mulligan_jobs.service = served.service
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS job
    LIMIT :limit
), queue_paused AS (
    SELECT job.id, 'limit/pause/queue/' || pause.name AS held
    FROM mulligan_pauses AS pause
    JOIN mulligan_jobs AS job ON job.queue = pause.name
    WHERE pause.what = 'queue' AND (pause.until IS NULL OR pause.until > :now)
      AND job.is_limited AND job.state IN ('queued', 'running') AND job.state = 'queued'
    LIMIT :limit
    FOR UPDATE OF job SKIP LOCKED
), kind_paused AS (
    SELECT job.id, 'limit/pause/kind/' || pause.name AS held
    FROM mulligan_pauses AS pause
    JOIN mulligan_jobs AS job ON job.kind = pause.name
    WHERE pause.what = 'kind' AND (pause.until IS NULL OR pause.until > :now)
      AND job.is_limited AND job.state IN ('queued', 'running') AND job.state = 'queued'
    LIMIT :limit
    FOR UPDATE OF job SKIP LOCKED
), service_paused AS (
    SELECT job.id, 'limit/pause/service/' || pause.name AS held
    FROM mulligan_pauses AS pause
    JOIN mulligan_jobs AS job ON job.service = pause.name
    WHERE pause.what = 'service' AND (pause.until IS NULL OR pause.until > :now)
      AND job.is_limited AND job.state = 'queued' AND job.service <> ''
    LIMIT :limit
    FOR UPDATE OF job SKIP LOCKED
)
SELECT id, min(held) AS gate
FROM (
    SELECT * FROM unserved
    UNION ALL SELECT * FROM queue_paused
    UNION ALL SELECT * FROM kind_paused
    UNION ALL SELECT * FROM service_paused
) AS blocked
GROUP BY id
