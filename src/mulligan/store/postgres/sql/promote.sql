-- The door: due jobs that no gate holds, the longest due first, a bounded number a pass.
WITH clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), due AS (
    SELECT id
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate IS NULL AND due_at <= (SELECT now FROM clock)
    ORDER BY due_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), promoted AS (
    UPDATE mulligan_jobs
    SET state = :queued, waiting_for = NULL, queued_at = clock.now, updated_at = clock.now
    FROM clock
    WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING id, kind, owner, attempt, clock.now
), logged AS (
    INSERT INTO mulligan_events (type, job, kind, owner, attempt, at)
    SELECT :event, id, kind, owner, attempt, now
    FROM promoted
)
SELECT count(*)
FROM promoted
