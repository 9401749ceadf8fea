-- The first jobs blocked under a gate become due again, once their own time has come. That is not visible on a job.
WITH parked AS (
    SELECT id
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate = :gate
    ORDER BY gate, priority, rank
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), moved AS (
    UPDATE mulligan_jobs
    SET gate = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM parked))
    RETURNING id
)
SELECT 0 AS passed, count(*) AS held
FROM moved
