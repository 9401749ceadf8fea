-- Members of an aborted batch that are not running, except those retried manually after the abort. Skips locked rows:
-- this transaction may hold the row of the batch, and the one that locks a member may wait for it.
WITH swept AS (
    SELECT id
    FROM mulligan_jobs
    WHERE batch = :id AND state IN ('waiting', 'queued') AND (trigger = 'automatic' OR updated_at <= :aborted_at)
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE mulligan_jobs AS job
SET state = :cancelled, waiting_for = NULL, gate = NULL, finished_at = clock.now, updated_at = clock.now
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
WHERE id = ANY (ARRAY(SELECT id FROM swept))
RETURNING id, kind, owner, attempt, clock.now, finished_at, on_cancelled
