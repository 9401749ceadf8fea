-- The first jobs blocked under a gate become due again, once their own time has come. That is not visible on a job.
UPDATE mulligan_jobs
SET gate = NULL
WHERE seq IN (
    SELECT seq
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate = :gate
    ORDER BY priority, rank
    LIMIT :limit
)
RETURNING id, kind, owner, attempt, state
