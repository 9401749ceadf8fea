-- The newest live jobs of an owner that were stored before there was a limit, or without knowing it.
SELECT id
FROM mulligan_jobs
WHERE owner = :owner AND owner <> '' AND state IN ('waiting', 'queued', 'running') AND NOT is_counted
ORDER BY id DESC
LIMIT :limit
