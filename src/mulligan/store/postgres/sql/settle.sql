-- The fence: a worker whose lease was taken over matches no row. A reclaimer matches only expired or stuck attempts. A
-- cancel request takes precedence over going back to the queue. A retry that may start at once is promoted here, as
-- `promote.sql` would do next. Alone, without a transaction, the statement leaves out a
-- job that this cancels and that another job follows.
WITH clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), input AS (
    SELECT *, promotes AND (SELECT {{retries_pass}}) AS passes
    FROM json_to_recordset(:outcomes::json) AS outcome (
        n integer, id text, attempt integer, incarnation text, claim bigint, expired_at bigint, settled_by text,
        target text, requeues boolean, waiting_for text, is_held boolean, delay bigint,
        failures integer, crashes integer, losses integer, snoozes integer, clears_losses boolean, code_failures text,
        max_attempts integer,
        result text, error_code text, error_class text, error_message text, error_group text,
        last_code text, last_class text, last_message text, last_detail text,
        event text, code text, data text, stuck_after bigint, actor text, promotes boolean
    )
), settled AS (
    UPDATE mulligan_jobs AS job
    SET state = CASE
            WHEN o.requeues AND job.cancel_requested THEN :cancelled
            WHEN o.passes AND NOT job.is_limited THEN :queued
            ELSE o.target
        END,
        waiting_for = CASE
            WHEN o.requeues AND job.cancel_requested OR o.passes AND NOT job.is_limited THEN NULL
            ELSE o.waiting_for
        END,
        gate = CASE WHEN o.is_held AND NOT job.cancel_requested THEN {{probe_gate}} END,
        due_at = coalesce(clock.now + o.delay, job.due_at),
        queued_at = CASE
            WHEN o.target = :queued OR o.passes AND NOT job.is_limited AND NOT job.cancel_requested THEN clock.now
            ELSE job.queued_at
        END,
        previous_delay = coalesce(o.delay, job.previous_delay),
        trigger = CASE WHEN o.requeues THEN 'automatic' ELSE job.trigger END,
        failures = job.failures + o.failures,
        snoozes = job.snoozes + o.snoozes,
        crashes = CASE WHEN o.clears_losses THEN 0 ELSE job.crashes + o.crashes END,
        losses = CASE WHEN o.clears_losses THEN 0 ELSE job.losses + o.losses END,
        code_failures = coalesce(o.code_failures, job.code_failures),
        max_attempts = coalesce(o.max_attempts, job.max_attempts),
        result = o.result,
        error_code = o.error_code, error_class = o.error_class,
        error_message = o.error_message, error_group = o.error_group,
        last_code = coalesce(o.last_code, job.last_code), last_class = coalesce(o.last_class, job.last_class),
        last_message = coalesce(o.last_message, job.last_message), last_detail = coalesce(o.last_detail, job.last_detail),
        progress = CASE WHEN o.requeues THEN 0 WHEN o.target = 'succeeded' THEN 1 ELSE job.progress END,
        progress_text = CASE WHEN o.requeues THEN '' ELSE job.progress_text END,
        finished_at = CASE WHEN o.requeues AND NOT job.cancel_requested THEN NULL ELSE clock.now END,
        leased_by = NULL, claim = NULL, lease_until = NULL, cancel_requested = false,
        settled_attempt = job.attempt, settled_by = o.settled_by,
        updated_at = clock.now
    FROM input AS o, clock
    WHERE {{fence}} AND NOT (:is_alone AND o.requeues AND job.cancel_requested AND job.on_cancelled IS NOT NULL)
    RETURNING o.n, job.id, job.kind, job.owner, job.state, job.attempt, clock.now, o.target, o.event, o.code, o.data, o.actor,
        job.on_failed, job.on_cancelled, job.cancel_xid
), logged AS (
    INSERT INTO mulligan_events (xid, type, job, kind, owner, attempt, at, actor, code, data)
    SELECT greatest(pg_current_xact_id(), cancel_xid), step.type, id, kind, owner, attempt, now,
        CASE step.place WHEN 1 THEN actor END, CASE step.place WHEN 1 THEN code END,
        CASE step.place WHEN 1 THEN data ELSE '{}' END
    FROM settled
    CROSS JOIN LATERAL (
        VALUES (1, CASE WHEN state IN (target, :queued) THEN event ELSE :cancel_event END), (2, :promoted)
    ) AS step (place, type)
    WHERE step.place = 1 OR (state = :queued AND target <> :queued)
    -- In a transaction the order of events is the order of their rows.
    ORDER BY n, step.place
)
SELECT n, id, owner, attempt, now, state, CASE state WHEN 'failed' THEN on_failed WHEN 'cancelled' THEN on_cancelled END
    AS follow_up
FROM settled
