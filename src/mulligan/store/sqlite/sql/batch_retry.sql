-- As `manual_retry.sql`, for many members. Skips members whose dedupe key another job holds now.
UPDATE OR IGNORE mulligan_jobs
SET state = :target, waiting_for = iif(:gate IS NULL, 'retry', 'batch'), gate = :gate, due_at = :now,
    failures = 0, crashes = 0, losses = 0, snoozes = 0, code_failures = '{}', previous_delay = NULL,
    manual_retries = manual_retries + 1, trigger = 'manual',
    deadline = iif(deadline <= :now, NULL, deadline),
    result = NULL, error_code = NULL, error_class = NULL, error_message = NULL, error_group = NULL,
    progress = 0, progress_text = '', finished_at = NULL, cancel_requested = 0, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:jobs)) AND batch = :batch AND +state = :source
RETURNING id, kind, owner, attempt
