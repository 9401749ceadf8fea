-- If it exists already nothing is written, and the caller reads it again.
INSERT INTO mulligan_schedules (
    name, kind, expression, timezone, missed, arguments, next_tick, last_tick, last_job, planned_by, since, seen_at, version
) VALUES (
    :name, :kind, :expression, :timezone, :missed, :arguments, :next_tick, :last_tick, :last_job, :planned_by, :since,
    {{clock}}, 1
)
ON CONFLICT DO NOTHING
RETURNING name
