-- Members of an aborted batch that do not run; what somebody asked for by hand after that is left alone. Nobody is waited
-- for: the row of the batch may be ours already, and whoever holds a member may wait for that.
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
RETURNING id, kind, owner, attempt, clock.now
