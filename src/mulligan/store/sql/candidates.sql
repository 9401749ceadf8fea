-- Jobs that an operation may move, by id: they ended, or were enqueued, before it began. The conditions are constants chosen by the filter; their values are bound.
SELECT *
FROM mulligan_jobs
WHERE {conditions} AND coalesce(finished_at, enqueued_at) <= :before AND id > :after
ORDER BY id
LIMIT :limit
