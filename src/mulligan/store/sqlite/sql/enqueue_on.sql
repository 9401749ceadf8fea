-- `enqueue` of many jobs in one statement, for a connection that is not ours: all or none, whatever its mode.
-- It begins with INSERT, not with WITH: by that word Python's sqlite3 knows that it has to open a transaction.
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, service, priority, rank, state, gate, waiting_for, arguments,
    max_attempts, max_crashes, max_snoozes, timeout, submitted_at, enqueued_at, queued_at, due_at, deadline, updated_at,
    dedupe_key, dedupe_scope, dedupe_until, tags, cost, on_failed, batch
)
WITH clock AS (
    SELECT coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)) AS now
), input AS (
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
        json_extract(value, '$.batch') AS batch,
        json_extract(value, '$.rank') AS rank
    FROM json_each(:jobs)
)
SELECT
    id, kind, owner, queue, service, priority, coalesce(rank, submitted_at, now),
    iif(delay = 0 AND batch IS NULL, 'queued', 'waiting'), 'batch/' || batch,
    iif(batch IS NOT NULL, 'batch', iif(delay = 0, NULL, 'delay')), arguments,
    max_attempts, max_crashes, max_snoozes, timeout, coalesce(submitted_at, now), now, iif(delay = 0 AND batch IS NULL, now, NULL),
    now + delay, now + deadline, now,
    dedupe_key, dedupe_scope, now + dedupe_for, tags, cost, on_failed, batch
FROM input, clock
-- A batch takes no more members once it is published.
WHERE batch IS NULL OR EXISTS (SELECT 1 FROM mulligan_batches WHERE mulligan_batches.id = input.batch AND state = 'draft')
ORDER BY n
ON CONFLICT DO NOTHING
RETURNING *
