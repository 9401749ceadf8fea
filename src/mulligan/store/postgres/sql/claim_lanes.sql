-- The lanes that a claim may take from, by a loose index scan: one seek per lane, not one per job. `most` is the grant
-- of a restricted service; without grants, all lanes whose services have to be asked.
WITH RECURSIVE clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), ready (queue, kind, service) AS (
    (
        SELECT queue, kind, service
        FROM mulligan_jobs
        WHERE state = 'queued'
        ORDER BY queue, kind, service
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.kind, following.service
    FROM ready
    CROSS JOIN LATERAL (
        SELECT queue, kind, service
        FROM mulligan_jobs
        WHERE state = 'queued' AND (queue, kind, service) > (ready.queue, ready.kind, ready.service)
        ORDER BY queue, kind, service
        LIMIT 1
    ) AS following
), lane AS (
    SELECT ready.queue, ready.kind, ready.service, granted.number AS most
    FROM ready
    LEFT JOIN json_to_recordset(:grants::json) AS granted (service text, kind text, number integer)
        ON granted.service = ready.service AND (granted.kind IS NULL OR granted.kind = ready.kind)
    WHERE ready.kind = ANY (:kinds::text[])
      AND (:queues::text[] IS NULL OR ready.queue = ANY (:queues::text[]))
      AND NOT EXISTS (
          SELECT 1
          FROM mulligan_pauses AS pause, clock
          WHERE pause.what IN ('queue', 'kind', 'service')
            AND pause.name = CASE pause.what WHEN 'queue' THEN ready.queue WHEN 'kind' THEN ready.kind ELSE ready.service END
            AND (pause.until IS NULL OR pause.until > clock.now)
      )
      AND (:grants::json IS NULL OR granted.number > 0 OR granted.service IS NULL AND NOT EXISTS (
          SELECT 1
          FROM mulligan_services AS service
          WHERE service.name = ready.service AND service.is_restricted
      ))
)
