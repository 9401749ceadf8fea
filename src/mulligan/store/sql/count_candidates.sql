-- The conditions are constants chosen by the filter; their values are bound.
SELECT kind, error_code, count(*) AS number
FROM mulligan_jobs
WHERE {conditions} AND coalesce(finished_at, enqueued_at) <= :before
GROUP BY kind, error_code
ORDER BY count(*) DESC, kind, error_code
