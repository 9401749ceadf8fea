-- How many ready jobs a worker would claim before this one, up to a bound: by (priority, rank) over all lanes, except
-- those that are paused or whose service holds its jobs. No row: the job is not queued.
{{ready_lanes}}, mine AS (
    SELECT queue, kind, service, priority, rank, id
    FROM mulligan_jobs
    WHERE id = :id AND state = 'queued'
), claimable AS (
    SELECT lane.queue, lane.kind, lane.service
    FROM lane, mine
    WHERE (lane.queue, lane.kind, lane.service) = (mine.queue, mine.kind, mine.service) OR NOT ({{lane_waits}})
)
SELECT (
    SELECT count(*)
    FROM (
        SELECT 1
        FROM claimable
        CROSS JOIN mulligan_jobs AS job
        WHERE job.state = 'queued'
          AND job.queue = claimable.queue AND job.kind = claimable.kind AND job.service = claimable.service
          AND (job.priority, job.rank, job.id) < (mine.priority, mine.rank, mine.id)
        LIMIT :limit
    )
) AS ahead
FROM mine
