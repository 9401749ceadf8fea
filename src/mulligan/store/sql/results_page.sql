-- The next finished jobs, by the index `mulligan_jobs_over`, whose condition is repeated here literally.
SELECT max(over_at) AS last, count(*) AS number
FROM (
    SELECT {{over_at}} AS over_at
    FROM mulligan_jobs
    WHERE state = 'succeeded' AND state IN ('succeeded', 'failed', 'cancelled')
      AND {{over_at}} > :position AND {{over_at}} < :before
    ORDER BY {{over_at}}
    LIMIT :limit
) AS page
