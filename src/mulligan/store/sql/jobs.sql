-- Newest first. The conditions are constants chosen by the filter; their values are bound.
SELECT *
FROM mulligan_jobs
WHERE {conditions}
ORDER BY id DESC
LIMIT :limit
