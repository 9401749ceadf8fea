-- Ids of jobs in one state, at most `few`, by an index that holds all jobs of that state.
SELECT id
FROM (
    SELECT id
    FROM mulligan_jobs
    WHERE {scan}
    LIMIT :few
) AS few_{number}
