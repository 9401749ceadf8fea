-- Run again now with the attempts that are left: the counters stay.
UPDATE mulligan_jobs
SET state = :target, waiting_for = coalesce(waiting_for, 'retry'), gate = NULL, due_at = :now, trigger = 'manual',
    deadline = iif(deadline <= :now, NULL, deadline),
    result = NULL, error_code = NULL, error_class = NULL, error_message = NULL, error_group = NULL,
    progress = 0, progress_text = '', finished_at = NULL, cancel_requested = 0, updated_at = :now
WHERE id = :id AND state = :source
