-- Only if it has not changed since it was read: of all workers that see a tick, one stores its job.
UPDATE mulligan_schedules
SET kind = :kind, expression = :expression, timezone = :timezone, missed = :missed, arguments = :arguments,
    next_tick = :next_tick, last_tick = :last_tick, last_job = :last_job, planned_by = :planned_by, since = :since,
    seen_at = {{clock}}, version = version + 1
WHERE name = :name AND version = :version
RETURNING name
