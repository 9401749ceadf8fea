SELECT kind, state, count(*) AS number
FROM mulligan_jobs
WHERE :owner::text IS NULL OR owner = :owner
GROUP BY kind, state
