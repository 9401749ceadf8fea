SELECT *
FROM mulligan_jobs
WHERE state = 'running' AND lease_until < coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AND leased_by <> :besides
ORDER BY lease_until
LIMIT :limit
