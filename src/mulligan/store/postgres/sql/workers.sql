SELECT *
FROM mulligan_workers
ORDER BY started_at
