-- By its key, one by one: a plan for many events would read all jobs.
LEFT JOIN LATERAL (
    SELECT batch, queue, service, cost
    FROM mulligan_jobs
    WHERE id = event.job
    LIMIT 1
) AS job ON true
