UPDATE mulligan_jobs
SET state = :target, waiting_for = 'snooze', gate = NULL, due_at = :now + :delay, updated_at = :now
WHERE id = :id AND state = :source
