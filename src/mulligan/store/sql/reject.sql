-- A job that was stored just now and never runs.
UPDATE mulligan_jobs
SET state = :failed, waiting_for = NULL, gate = NULL, queued_at = NULL, finished_at = enqueued_at,
    error_code = :error_code, error_class = :error_class, error_message = :error_message, error_group = :error_group
WHERE id = :id
RETURNING *
