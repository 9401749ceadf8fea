-- How many jobs of an owner are left that came before a time, counted up to a limit.
SELECT count(*) AS number
FROM (
    SELECT 1
    FROM mulligan_jobs
    WHERE owner = :owner AND owner <> '' AND enqueued_at <= :until
    LIMIT :limit
) AS job
