-- The lanes with ready jobs and the first job of each, by a loose index scan: at most three seeks per lane, not one per
-- job. (queue, kind, service) > (…) in one comparison would seek by the queue alone and scan every job in it.
WITH RECURSIVE lane (queue, kind, service, priority, rank, id) AS (
    SELECT * FROM (
        SELECT queue, kind, service, priority, rank, id
        FROM mulligan_jobs
        WHERE state = 'queued'
        ORDER BY queue, kind, service, priority, rank, id
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.kind, following.service, following.priority, following.rank, following.id
    FROM lane
    JOIN mulligan_jobs AS following ON following.seq = coalesce(
        (
            SELECT seq
            FROM mulligan_jobs
            WHERE state = 'queued' AND queue = lane.queue AND kind = lane.kind AND service > lane.service
            ORDER BY service, priority, rank, id
            LIMIT 1
        ),
        (
            SELECT seq
            FROM mulligan_jobs
            WHERE state = 'queued' AND queue = lane.queue AND kind > lane.kind
            ORDER BY kind, service, priority, rank, id
            LIMIT 1
        ),
        (
            SELECT seq
            FROM mulligan_jobs
            WHERE state = 'queued' AND queue > lane.queue
            ORDER BY queue, kind, service, priority, rank, id
            LIMIT 1
        )
    )
)
