-- Ready jobs by queue and kind, and since when the oldest waits. Of each lane at most a part of :most is read, in claim
-- order: with more, the number is a lower bound. Then the running jobs: never more than slots of all workers.
{{ready_lanes}}, bound (most) AS (
    SELECT greatest(100, :most::bigint / greatest(1, count(*)))
    FROM lane
), counted AS (
    SELECT queue, kind, (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM mulligan_jobs AS job
            WHERE job.state = 'queued' AND job.queue = lane.queue AND job.kind = lane.kind AND job.service = lane.service
            ORDER BY job.priority, job.rank, job.id
            LIMIT (SELECT most FROM bound)
        ) AS jobs
    ) AS number, (
        SELECT min(since)
        FROM (
            SELECT coalesce(job.queued_at, job.updated_at) AS since
            FROM mulligan_jobs AS job
            WHERE job.state = 'queued' AND job.queue = lane.queue AND job.kind = lane.kind AND job.service = lane.service
            ORDER BY job.priority, job.rank, job.id
            LIMIT (SELECT most FROM bound)
        ) AS jobs
    ) AS since
    FROM lane
)
SELECT queue, kind, sum(number) AS ready, max(number) >= (SELECT most FROM bound) AS at_least, min(since) AS since, 0 AS running
FROM counted
GROUP BY queue, kind
UNION ALL
SELECT queue, kind, 0, false, NULL, count(*)
FROM mulligan_jobs
WHERE state = 'running'
GROUP BY queue, kind
ORDER BY queue, kind
