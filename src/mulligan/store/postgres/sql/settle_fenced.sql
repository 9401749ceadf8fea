-- Those of these outcomes that a settle will accept. Their rows are locked first: jobs, then services.
WITH clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
)
SELECT o.n
FROM json_to_recordset(:outcomes::json) AS o (
    n integer, id text, attempt integer, incarnation text, claim bigint, expired_at bigint, stuck_after bigint
)
JOIN mulligan_jobs AS job ON job.id = o.id
CROSS JOIN clock
WHERE {{fence}}
ORDER BY job.id
FOR UPDATE OF job
