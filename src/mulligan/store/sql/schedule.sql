-- Only if it is still as it was read: of all who saw a tick come, one makes its job.
UPDATE mulligan_schedules
SET kind = :kind, expression = :expression, timezone = :timezone, missed = :missed, arguments = :arguments,
    next_tick = :next_tick, last_tick = :last_tick, last_job = :last_job, planned_by = :planned_by, since = :since,
    seen_at = {{clock}}, version = version + 1
WHERE name = :name AND version = :version
RETURNING name
