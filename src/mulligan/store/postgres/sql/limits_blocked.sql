-- Jobs that hold a place and cannot be claimed: they are paused, or their service is held.
WITH clock AS (
    SELECT :now::bigint AS now
), served AS (
    SELECT job.id, 'limit/service/' || job.service AS gate
    FROM mulligan_services AS service
    CROSS JOIN clock
    JOIN mulligan_jobs AS job ON job.service = service.name
    WHERE service.is_restricted AND service.ask_at > clock.now AND service.ask_at - service.hold <= clock.now
      AND job.is_limited AND job.state = 'queued' AND job.service <> ''
    LIMIT :limit
    FOR UPDATE OF job SKIP LOCKED
), paused AS (
    SELECT job.id, 'limit/pause/' || pause.what || '/' || pause.name AS gate
    FROM mulligan_pauses AS pause
    CROSS JOIN clock
    JOIN mulligan_jobs AS job
        ON pause.name = CASE pause.what WHEN 'queue' THEN job.queue WHEN 'kind' THEN job.kind ELSE job.service END
    WHERE pause.what IN ('queue', 'kind', 'service') AND (pause.until IS NULL OR pause.until > clock.now)
      AND job.is_limited AND job.state IN ('queued', 'running') AND job.state = 'queued'
    LIMIT :limit
    FOR UPDATE OF job SKIP LOCKED
)
SELECT id, min(gate) AS gate
FROM (SELECT * FROM served UNION ALL SELECT * FROM paused) AS blocked
GROUP BY id
