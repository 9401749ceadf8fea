-- Jobs that hold a place and cannot be claimed: they are paused, or their service is held.
SELECT id, min(held) AS gate
FROM (
    SELECT * FROM (
        SELECT job.id, 'limit/service/' || job.service AS held
        FROM mulligan_services AS service
        JOIN mulligan_jobs AS job ON job.service = service.name
        WHERE service.is_restricted AND service.ask_at > :now AND service.ask_at - service.hold <= :now
          AND job.is_limited AND job.state = 'queued' AND job.service <> ''
        LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT job.id, 'limit/pause/' || pause.what || '/' || pause.name AS held
        FROM mulligan_pauses AS pause
        JOIN mulligan_jobs AS job ON job.is_limited AND job.state IN ('queued', 'running') AND job.state = 'queued'
            AND pause.name = CASE pause.what WHEN 'queue' THEN job.queue WHEN 'kind' THEN job.kind ELSE job.service END
        WHERE pause.what IN ('queue', 'kind', 'service') AND (pause.until IS NULL OR pause.until > :now)
        LIMIT :limit
    )
)
GROUP BY id
