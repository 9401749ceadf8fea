-- As `settle.sql`, for attempts that succeeded: most of them. By place, not by name: binding is what it costs.
UPDATE mulligan_jobs
SET state = 'succeeded', result = ?1, progress = 1, crashes = 0, losses = 0,
    finished_at = ?2,
    leased_by = NULL, claim = NULL, lease_until = NULL, cancel_requested = 0,
    settled_attempt = attempt, settled_by = ?3,
    updated_at = ?2
WHERE id = ?4 AND attempt = ?5 AND leased_by = ?6 AND claim = ?7 AND state = 'running'
