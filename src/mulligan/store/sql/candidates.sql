-- Jobs that an operation may move, by id. The conditions are fixed texts chosen by the filter; their values are bound.
SELECT *
FROM mulligan_jobs
WHERE {conditions} AND finished_at <= :before AND id > :after
ORDER BY id
LIMIT :limit
