-- The first of those parked under a gate are due again, as soon as their own time has come. Nobody sees that of a job.
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
