-- The first jobs blocked under a gate: a budget that allows them, or for a manual run a pause still in force. Limits
-- apply to them as to all others.
WITH clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), parked AS (
    SELECT id, owner, queue, kind
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate = :gate
    ORDER BY gate, priority, rank
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), gated AS (
    SELECT id, {{limit_gate}} AS gate
    FROM parked
), passed AS (
    UPDATE mulligan_jobs AS job
    SET state = CASE WHEN gated.gate IS NULL THEN :queued ELSE job.state END,
        gate = gated.gate,
        waiting_for = CASE WHEN gated.gate IS NOT NULL THEN 'limit' END,
        is_limited = false,
        queued_at = CASE WHEN gated.gate IS NULL THEN clock.now ELSE job.queued_at END,
        updated_at = clock.now
    FROM gated, clock
    WHERE job.id = ANY (ARRAY(SELECT id FROM parked)) AND job.id = gated.id
    RETURNING job.id, job.kind, job.owner, job.attempt, job.state, clock.now
), logged AS (
    INSERT INTO mulligan_events (xid, type, job, kind, owner, attempt, at)
    SELECT
        {{event_position}},
        :event, id, kind, owner, attempt, now
    FROM passed AS moved
    WHERE state = :queued
)
SELECT count(*) FILTER (WHERE state = :queued) AS passed, count(*) FILTER (WHERE state <> :queued) AS held
FROM passed
