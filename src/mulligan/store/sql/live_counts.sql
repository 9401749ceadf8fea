-- By the index `mulligan_jobs_counted`, whose condition is repeated here literally. Counted up to a limit: an owner may
-- have many more jobs than it is allowed.
SELECT owner, counted_until, (
    SELECT count(*)
    FROM (
        SELECT 1
        FROM mulligan_jobs AS job
        WHERE job.owner = given.owner AND job.is_counted AND job.state IN ('waiting', 'queued', 'running')
        LIMIT :limit
    ) AS counted
) AS number
FROM mulligan_submissions AS given
WHERE owner = ANY (ARRAY(SELECT json_array_elements_text(:owners::json)))
