-- As `settle.sql`, for retries that a worker settles itself. A job with a cancel request is left to that statement, and
-- so is one that may be promoted but holds a slot.
UPDATE mulligan_jobs
SET state = iif(:promotes, 'queued', 'waiting'),
    waiting_for = iif(:promotes, NULL, 'retry'),
    queued_at = iif(:promotes, :now, queued_at),
    gate = NULL,
    due_at = :now + :delay, previous_delay = :delay, trigger = 'automatic',
    failures = failures + 1, crashes = 0, losses = 0,
    code_failures = :code_failures, max_attempts = coalesce(:max_attempts, max_attempts),
    result = NULL, error_code = NULL, error_class = NULL, error_message = NULL, error_group = NULL,
    last_code = :code, last_class = :error_class, last_message = :message, last_detail = :detail,
    progress = 0, progress_text = '', finished_at = NULL,
    leased_by = NULL, claim = NULL, lease_until = NULL,
    settled_attempt = attempt, settled_by = :settled_by,
    updated_at = :now
WHERE id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim AND state = 'running' AND NOT cancel_requested
  AND NOT (:promotes AND is_limited)
