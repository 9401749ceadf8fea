-- Reads a limited number of jobs by one index, in its order, and counts those that match.
SELECT {number} AS scan, {label} AS name, sum(is_match) AS matched, count(*) AS looked_at
FROM (
    SELECT {column} AS name, CASE WHEN {conditions} THEN 1 ELSE 0 END AS is_match
    FROM mulligan_jobs
    WHERE {scan}
    ORDER BY {order}
    LIMIT :limit
) AS scanned
{grouping}
