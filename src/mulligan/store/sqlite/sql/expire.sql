-- A damaged row is skipped and does not stop the others.
UPDATE OR IGNORE mulligan_jobs
SET state = :failed, waiting_for = NULL, gate = NULL, finished_at = :now, updated_at = :now,
    error_code = :error_code, error_class = :error_class, error_message = :error_message, error_group = :error_group
WHERE seq IN (
    SELECT seq
    FROM mulligan_jobs
    WHERE deadline IS NOT NULL AND deadline <= :now AND state IN ('waiting', 'queued')
    ORDER BY deadline
    LIMIT :limit
)
RETURNING id, kind, owner, attempt, finished_at, on_failed, batch
