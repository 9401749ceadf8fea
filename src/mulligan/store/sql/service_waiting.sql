-- How many jobs wait for a service, ready or not, counted up to a limit per lane.
{{ready_lanes}}
SELECT coalesce((
    SELECT sum((
        SELECT count(*)
        FROM (
            SELECT 1
            FROM mulligan_jobs
            WHERE state = 'queued' AND queue = lane.queue AND kind = lane.kind AND service = lane.service
            LIMIT :limit
        ) AS counted
    ))
    FROM lane
    WHERE lane.service = :service
), 0) + (
    SELECT count(*)
    FROM (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'waiting' AND service <> '' AND service || '' = :service || ''
        LIMIT :limit
    ) AS counted
) AS number
