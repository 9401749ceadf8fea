-- `enqueue` of many jobs in one statement, for a connection of the caller: all or none in any mode. It begins with
-- INSERT, not with WITH: that is how Python's sqlite3 knows that it has to begin a transaction.
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, service, priority, rank, state, gate, waiting_for, arguments,
    max_attempts, max_crashes, max_snoozes, timeout, submitted_at, enqueued_at, queued_at, due_at, deadline, updated_at,
    dedupe_key, dedupe_scope, dedupe_until, tags, cost, on_failed, on_cancelled, batch,
    own_max_attempts, own_timeout, is_counted
)
WITH clock AS (
    SELECT coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)) AS now
), input AS MATERIALIZED (
    -- Else each value would be extracted wherever it is used.
    SELECT
        key AS n,
        json_extract(value, '$.id') AS id,
        json_extract(value, '$.kind') AS kind,
        json_extract(value, '$.owner') AS owner,
        json_extract(value, '$.queue') AS queue,
        json_extract(value, '$.service') AS service,
        json_extract(value, '$.priority') AS priority,
        json_extract(value, '$.arguments') AS arguments,
        json_extract(value, '$.submitted_at') AS submitted_at,
        json_extract(value, '$.delay') AS delay,
        json_extract(value, '$.deadline') AS deadline,
        json_extract(value, '$.max_attempts') AS max_attempts,
        json_extract(value, '$.max_crashes') AS max_crashes,
        json_extract(value, '$.max_snoozes') AS max_snoozes,
        json_extract(value, '$.timeout') AS timeout,
        json_extract(value, '$.dedupe_key') AS dedupe_key,
        json_extract(value, '$.dedupe_scope') AS dedupe_scope,
        json_extract(value, '$.dedupe_for') AS dedupe_for,
        json_extract(value, '$.tags') AS tags,
        json_extract(value, '$.cost') AS cost,
        json_extract(value, '$.on_failed') AS on_failed,
        json_extract(value, '$.on_cancelled') AS on_cancelled,
        json_extract(value, '$.batch') AS batch,
        json_extract(value, '$.own_max_attempts') AS own_max_attempts,
        json_extract(value, '$.own_timeout') AS own_timeout,
        json_extract(value, '$.is_counted') AS is_counted,
        json_extract(value, '$.rank') AS rank,
        json_extract(value, '$.is_limited') AS is_limited
    FROM json_each(:jobs)
), gated AS (
    SELECT *, CASE
        WHEN batch IS NOT NULL THEN 'batch'
        WHEN delay <> 0 THEN 'delay'
        WHEN is_limited OR {{has_limit}} THEN 'limit'
    END AS waits_for
    FROM input
)
SELECT
    id, kind, owner, queue, service, priority, coalesce(rank, submitted_at, now),
    iif(waits_for IS NULL, 'queued', 'waiting'), 'batch/' || batch, waits_for, arguments,
    max_attempts, max_crashes, max_snoozes, timeout, coalesce(submitted_at, now), now, iif(waits_for IS NULL, now, NULL),
    now + delay, now + deadline, now,
    dedupe_key, dedupe_scope, now + dedupe_for, tags, cost, on_failed, on_cancelled, batch,
    own_max_attempts, own_timeout, coalesce(is_counted, false)
FROM gated, clock
-- A batch accepts no members once it is published.
WHERE (batch IS NULL OR EXISTS (SELECT 1 FROM mulligan_batches WHERE mulligan_batches.id = gated.batch AND state = 'draft'))
  -- All or none: `intake` names the kinds and queues of all jobs.
  AND NOT EXISTS (
      SELECT 1
      FROM mulligan_pauses
      WHERE what = 'intake' AND name IN (SELECT value FROM json_each(:intake)) AND (until IS NULL OR until > clock.now)
  )
ORDER BY n
ON CONFLICT DO NOTHING
RETURNING *
