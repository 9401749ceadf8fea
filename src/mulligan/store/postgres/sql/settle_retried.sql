-- As `settle.sql`, for retries that a worker settles itself; a job with a cancel request is left to that statement. Each
-- column is one string, as in `settle_succeeded.sql`.
WITH clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), outcome AS (
    SELECT o.*, clock.now, o.promotes AND (SELECT {{retries_pass}}) AS passes
    FROM clock, unnest(
        string_to_array(:ids, :separator),
        string_to_array(:attempts, :separator)::integer[],
        string_to_array(:incarnations, :separator),
        string_to_array(:claims, :separator)::bigint[],
        string_to_array(:settled_by, :separator),
        string_to_array(:promotes, :separator)::boolean[],
        string_to_array(:delays, :separator)::bigint[],
        string_to_array(:code_failures, :separator),
        string_to_array(:max_attempts, :separator, '')::integer[],
        string_to_array(:codes, :separator),
        string_to_array(:classes, :separator),
        string_to_array(:messages, :separator),
        string_to_array(:details, :separator),
        string_to_array(:data, :separator)
    ) WITH ORDINALITY AS o (
        id, attempt, incarnation, claim, settled_by, promotes, delay, code_failures, max_attempts,
        code, class, message, detail, data, n
    )
), settled AS (
    UPDATE mulligan_jobs AS job
    SET state = CASE WHEN o.passes AND NOT job.is_limited THEN :queued ELSE :target END,
        waiting_for = CASE WHEN o.passes AND NOT job.is_limited THEN NULL ELSE 'retry' END,
        queued_at = CASE WHEN o.passes AND NOT job.is_limited THEN o.now ELSE job.queued_at END,
        gate = NULL,
        due_at = o.now + o.delay, previous_delay = o.delay, trigger = 'automatic',
        failures = job.failures + 1, crashes = 0, losses = 0,
        code_failures = o.code_failures, max_attempts = coalesce(o.max_attempts, job.max_attempts),
        result = NULL, error_code = NULL, error_class = NULL, error_message = NULL, error_group = NULL,
        -- The array of one empty string has no element.
        last_code = o.code, last_class = o.class, last_message = coalesce(o.message, ''), last_detail = coalesce(o.detail, ''),
        progress = 0, progress_text = '', finished_at = NULL,
        leased_by = NULL, claim = NULL, lease_until = NULL,
        settled_attempt = job.attempt, settled_by = o.settled_by,
        updated_at = o.now
    FROM outcome AS o
    WHERE job.id = o.id AND job.state = 'running' AND NOT job.cancel_requested
      AND (job.attempt, job.leased_by, job.claim) IS NOT DISTINCT FROM (o.attempt, o.incarnation, o.claim)
    RETURNING o.n, job.id, job.kind, job.owner, job.state, job.attempt, o.now, o.code, o.data, job.cancel_xid
), logged AS (
    INSERT INTO mulligan_events (xid, type, job, kind, owner, attempt, at, code, data)
    SELECT greatest(pg_current_xact_id(), cancel_xid), step.type, id, kind, owner, attempt, now,
        CASE step.place WHEN 1 THEN code END, CASE step.place WHEN 1 THEN data ELSE '{}' END
    FROM settled
    JOIN (VALUES (1, :event), (2, :promoted)) AS step (place, type) ON step.place = 1 OR state = :queued
    -- In a transaction the order of events is the order of their rows.
    ORDER BY n, step.place
)
SELECT n
FROM settled
