-- A running job keeps its lease: its worker is notified and settles it.
UPDATE mulligan_jobs
SET state = :target,
    waiting_for = NULL, gate = NULL,
    cancel_requested = (:target = 'running'),
    finished_at = iif(:target = 'running', NULL, :now),
    updated_at = :now
WHERE id = :id AND state = :source
