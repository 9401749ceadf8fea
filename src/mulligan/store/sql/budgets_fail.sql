UPDATE mulligan_jobs
SET state = :failed, waiting_for = NULL, gate = NULL, finished_at = :now, updated_at = :now,
    error_code = :error_code, error_class = :error_class, error_message = :error_message, error_group = :error_group
WHERE id IN (SELECT json_array_elements_text(:ids::json)) AND state = 'waiting'
RETURNING id, kind, owner, attempt, finished_at, on_failed, batch
