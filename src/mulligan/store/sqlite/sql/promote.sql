-- The door: due jobs that no gate holds, the longest due first, a bounded number a pass.
UPDATE mulligan_jobs
SET state = :queued, waiting_for = NULL, queued_at = :now, updated_at = :now
WHERE seq IN (
    SELECT seq
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate IS NULL AND due_at <= :now
    ORDER BY due_at
    LIMIT :limit
)
RETURNING id, kind, owner, attempt
