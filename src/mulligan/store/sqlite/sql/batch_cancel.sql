-- Members of an aborted batch that are not running, except those retried manually after the abort.
UPDATE mulligan_jobs
SET state = :cancelled, waiting_for = NULL, gate = NULL, finished_at = :now, updated_at = :now
WHERE seq IN (
    SELECT seq
    FROM mulligan_jobs
    WHERE batch = :id AND +state IN ('waiting', 'queued') AND (trigger = 'automatic' OR updated_at <= :aborted_at)
    LIMIT :limit
)
RETURNING id, kind, owner, attempt, finished_at, on_cancelled
