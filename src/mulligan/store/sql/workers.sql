SELECT *, (
    SELECT count(*)
    FROM mulligan_jobs
    WHERE state = 'running' AND leased_by = incarnation
) AS holds
FROM mulligan_workers
ORDER BY started_at
