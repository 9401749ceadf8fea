-- A due job is queued in its lane at once. Any other job waits to be promoted, and so does one with a limit. A member
-- of a draft is blocked. If a unique rule is violated nothing is written; the caller then looks for the other job.
input AS (
    SELECT *
    FROM jsonb_to_recordset(:jobs::jsonb) AS job (
        n integer, id text, kind text, owner text, queue text, service text, priority integer, arguments text,
        submitted_at bigint, delay bigint, deadline bigint, max_attempts integer, max_crashes integer,
        max_snoozes integer, timeout bigint, dedupe_key text, dedupe_scope text, dedupe_for bigint, tags text, cost integer,
        on_failed text, on_cancelled text, batch text, rank bigint, is_limited boolean,
        own_max_attempts integer, own_timeout bigint, is_counted boolean
    )
), gated AS (
    SELECT *, CASE
        WHEN batch IS NOT NULL THEN 'batch'
        WHEN delay <> 0 THEN 'delay'
        WHEN is_limited OR {{has_limit}} THEN 'limit'
    END AS waits_for
    FROM input
), stored AS (
    INSERT INTO mulligan_jobs (
        id, kind, owner, queue, service, priority, rank, state, gate, waiting_for, arguments,
        max_attempts, max_crashes, max_snoozes, timeout, submitted_at, enqueued_at, queued_at, due_at, deadline, updated_at,
        dedupe_key, dedupe_scope, dedupe_until, tags, cost, on_failed, on_cancelled, batch,
        own_max_attempts, own_timeout, is_counted
    )
    SELECT
        id, kind, owner, queue, service, priority, coalesce(rank, submitted_at, now),
        CASE WHEN waits_for IS NULL THEN 'queued' ELSE 'waiting' END, 'batch/' || batch, waits_for, arguments,
        max_attempts, max_crashes, max_snoozes, timeout, coalesce(submitted_at, now), now,
        CASE WHEN waits_for IS NULL THEN now END,
        now + delay, now + deadline, now,
        dedupe_key, dedupe_scope, now + dedupe_for, tags, cost, on_failed, on_cancelled, batch,
        own_max_attempts, own_timeout, coalesce(is_counted, false)
    FROM gated, clock
    -- All or none: `intake` names the kinds and queues of all jobs.
    WHERE NOT EXISTS (
        SELECT 1
        FROM mulligan_pauses AS pause, clock
        WHERE pause.what = 'intake' AND pause.name = ANY (ARRAY(SELECT json_array_elements_text(:intake::json)))
          AND (pause.until IS NULL OR pause.until > clock.now)
    )
    -- One order for all transactions: two clients with the same keys must not deadlock.
    ORDER BY owner, kind, dedupe_key, n
    ON CONFLICT DO NOTHING
    RETURNING *
), logged AS (
    INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, data)
    SELECT :event, id, kind, owner, 0, enqueued_at,
        CASE
            WHEN state = 'queued' THEN '{}'
            WHEN waiting_for = 'limit' THEN '{"waiting_for":"limit"}'
            WHEN batch IS NULL THEN format('{"delay":%s}', (due_at - enqueued_at) / 1e6)
            WHEN due_at = enqueued_at THEN json_build_object('batch', batch)::text
            ELSE json_build_object('batch', batch, 'delay', (due_at - enqueued_at) / 1e6)::text
        END
    FROM stored
)
