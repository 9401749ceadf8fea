-- By hand, past a pause that is still on: the first of those parked under it.
WITH clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), parked AS (
    SELECT id
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate = :gate
    ORDER BY gate, priority, rank
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), passed AS (
    UPDATE mulligan_jobs
    SET state = :queued, gate = NULL, waiting_for = NULL, queued_at = clock.now, updated_at = clock.now
    FROM clock
    WHERE id = ANY (ARRAY(SELECT id FROM parked))
    RETURNING id, kind, owner, attempt, clock.now
), logged AS (
    INSERT INTO mulligan_events (type, job, kind, owner, attempt, at)
    SELECT :event, id, kind, owner, attempt, now
    FROM passed
)
SELECT count(*)
FROM passed
