-- Whether a claim that got fewer than it wanted left ready jobs behind: others were claiming in the same moment.
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
SELECT EXISTS (
    SELECT 1
    FROM lane
    CROSS JOIN LATERAL (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'queued' AND queue = lane.queue AND kind = lane.kind AND service = lane.service
          AND (deadline IS NULL
               OR deadline > coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
        ORDER BY priority, rank, id
        LIMIT 1
    ) AS job
    WHERE lane.kind = ANY (:kinds::text[])
      AND (:queues::text[] IS NULL OR lane.queue = ANY (:queues::text[]))
)
