-- By hand, past a pause that is still on: the first of those parked under it.
UPDATE mulligan_jobs
SET state = :queued, gate = NULL, waiting_for = NULL, queued_at = :now, updated_at = :now
WHERE seq IN (
    SELECT seq
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate = :gate
    ORDER BY priority, rank
    LIMIT :limit
)
RETURNING id, kind, owner, attempt, state
