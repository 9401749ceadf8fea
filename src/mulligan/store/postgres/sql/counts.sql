SELECT kind, state, count(*)
FROM mulligan_jobs
WHERE :owner::text IS NULL OR owner = :owner
GROUP BY kind, state
