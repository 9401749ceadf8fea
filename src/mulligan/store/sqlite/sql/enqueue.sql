-- A due job is queued in its lane at once. Any other job waits to be promoted, and so does one with a limit. A member
-- of a draft is blocked. While its intake is paused, no job of a client is stored. If a unique rule is violated nothing is written; the caller then looks for the other job.
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, service, priority, rank, state, gate, waiting_for, arguments,
    max_attempts, max_crashes, max_snoozes, timeout, submitted_at, enqueued_at, queued_at, due_at, deadline, updated_at,
    dedupe_key, dedupe_scope, dedupe_until, tags, cost, on_failed, on_cancelled, batch,
    own_max_attempts, own_timeout, is_counted
)
SELECT
    :id, :kind, :owner, :queue, :service, :priority, coalesce(:rank, :submitted_at, :now),
    iif(waits_for IS NULL, 'queued', 'waiting'), 'batch/' || :batch, waits_for, :arguments,
    :max_attempts, :max_crashes, :max_snoozes, :timeout, coalesce(:submitted_at, :now), :now, iif(waits_for IS NULL, :now, NULL),
    :now + :delay, :now + :deadline, :now,
    :dedupe_key, :dedupe_scope, :now + :dedupe_for, :tags, :cost, :on_failed, :on_cancelled, :batch,
    :own_max_attempts, :own_timeout, :is_counted
FROM (
    SELECT CASE
        WHEN :batch IS NOT NULL THEN 'batch'
        WHEN :delay <> 0 THEN 'delay'
        WHEN :is_limited OR {{has_limit}} THEN 'limit'
    END AS waits_for
    FROM (SELECT :owner AS owner, :queue AS queue, :kind AS kind)
)
WHERE NOT :is_submitted OR NOT EXISTS (
    SELECT 1
    FROM mulligan_pauses
    WHERE what = 'intake' AND name IN ('*', :queue, :kind) AND (until IS NULL OR until > :now)
)
ON CONFLICT DO NOTHING
RETURNING *
