-- As `settle.sql`, for succeeded attempts, which are most. Parameters by position, not by name: binding is the main
-- cost.
UPDATE mulligan_jobs
SET state = 'succeeded', result = ?, progress = 1, crashes = 0, losses = 0,
    finished_at = ?,
    leased_by = NULL, claim = NULL, lease_until = NULL, cancel_requested = 0,
    settled_attempt = attempt, settled_by = ?,
    updated_at = ?
WHERE id = ? AND attempt = ? AND leased_by = ? AND claim = ? AND state = 'running'
