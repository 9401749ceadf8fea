-- Members of an aborted batch that do not run; what somebody asked for by hand after that is left alone.
UPDATE mulligan_jobs
SET state = :cancelled, waiting_for = NULL, gate = NULL, finished_at = :now, updated_at = :now
WHERE seq IN (
    SELECT seq
    FROM mulligan_jobs
    WHERE batch = :id AND +state IN ('waiting', 'queued') AND (trigger = 'automatic' OR updated_at <= :aborted_at)
    LIMIT :limit
)
RETURNING id, kind, owner, attempt
