-- Jobs that a redrive may move, by id. The conditions are constants chosen by the filter; their values are bound.
SELECT *
FROM mulligan_jobs
WHERE {conditions} AND finished_at <= :before AND id > :after
ORDER BY id
LIMIT :limit
