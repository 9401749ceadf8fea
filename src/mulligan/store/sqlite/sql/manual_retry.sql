-- Reset everything for a fresh start; only `attempt` continues. A deadline in the past would end the job at once.
UPDATE mulligan_jobs
SET state = :target, waiting_for = 'retry', gate = NULL, due_at = :now,
    failures = 0, crashes = 0, losses = 0, snoozes = 0, code_failures = '{}', previous_delay = NULL,
    manual_retries = manual_retries + 1, trigger = 'manual',
    deadline = iif(deadline <= :now, NULL, deadline),
    result = NULL, error_code = NULL, error_class = NULL, error_message = NULL, error_group = NULL,
    progress = 0, progress_text = '', finished_at = NULL, cancel_requested = 0, updated_at = :now
WHERE id = :id AND state = :source
