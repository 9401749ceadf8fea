-- As `settle.sql`, for retries that a worker settles itself. A job with a cancel request is left to that statement, and
-- so is one that may be promoted but holds a slot.
-- Parameters by position, as in `settle_succeeded.sql`.
UPDATE mulligan_jobs
SET state = iif(?1, 'queued', 'waiting'),
    waiting_for = iif(?1, NULL, 'retry'),
    queued_at = iif(?1, ?2, queued_at),
    gate = NULL,
    due_at = ?2 + ?3, previous_delay = ?3, trigger = 'automatic',
    failures = failures + 1, crashes = 0, losses = 0,
    code_failures = ?4, max_attempts = coalesce(?5, max_attempts),
    result = NULL, error_code = NULL, error_class = NULL, error_message = NULL, error_group = NULL,
    last_code = ?6, last_class = ?7, last_message = ?8, last_detail = ?9,
    progress = 0, progress_text = '', finished_at = NULL,
    leased_by = NULL, claim = NULL, lease_until = NULL,
    settled_attempt = attempt, settled_by = ?10,
    updated_at = ?2
WHERE id = ?11 AND attempt = ?12 AND leased_by = ?13 AND claim = ?14 AND state = 'running' AND NOT cancel_requested
  AND NOT (?1 AND is_limited)
