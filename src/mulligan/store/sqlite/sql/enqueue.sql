-- A job that is due stands in its lane at once; any other waits for the door. A member of a draft is parked there.
-- Whatever unique rule it meets, nothing is written: the caller then looks for the twin.
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, service, priority, rank, state, gate, waiting_for, arguments,
    max_attempts, max_crashes, max_snoozes, timeout, submitted_at, enqueued_at, queued_at, due_at, deadline, updated_at,
    dedupe_key, dedupe_scope, dedupe_until, tags, cost, on_failed, batch
) VALUES (
    :id, :kind, :owner, :queue, :service, :priority, coalesce(:rank, :submitted_at, :now),
    iif(:delay = 0 AND :batch IS NULL, 'queued', 'waiting'), 'batch/' || :batch,
    iif(:batch IS NOT NULL, 'batch', iif(:delay = 0, NULL, 'delay')), :arguments,
    :max_attempts, :max_crashes, :max_snoozes, :timeout, coalesce(:submitted_at, :now), :now, iif(:delay = 0 AND :batch IS NULL, :now, NULL),
    :now + :delay, :now + :deadline, :now,
    :dedupe_key, :dedupe_scope, :now + :dedupe_for, :tags, :cost, :on_failed, :batch
)
ON CONFLICT DO NOTHING
RETURNING *
