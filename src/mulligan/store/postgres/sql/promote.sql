-- The door: jobs that are due, the longest due first, and those parked under a pause that is over; a bounded number a
-- pass. One that is due while its duty is paused is parked under that gate: it leaves the due index, and a million of
-- them stand in nobody's way. So is a retry while its service is failing: it waits for the budget. What somebody asked for
-- by hand passes all the same. Members of a batch are parked while it is a draft; once it is published they come in, or wait
-- for what else there is to wait for.
WITH clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), door AS (
    SELECT duty, EXISTS (
        SELECT 1
        FROM mulligan_pauses, clock
        WHERE what = 'duty' AND name = duty AND (until IS NULL OR until > clock.now)
    ) AS is_paused
    FROM (VALUES ('retry'), ('promote')) AS known (duty)
), due AS (
    SELECT id, CASE
        WHEN trigger <> 'automatic' THEN NULL
        WHEN waiting_for IN ('retry', 'rate limit') AND (SELECT is_paused FROM door WHERE duty = 'retry') THEN 'duty/retry'
        WHEN waiting_for NOT IN ('retry', 'rate limit') AND (SELECT is_paused FROM door WHERE duty = 'promote') THEN 'duty/promote'
        WHEN waiting_for = 'retry' AND service <> '' AND EXISTS (
            SELECT 1
            FROM mulligan_services
            WHERE name = mulligan_jobs.service AND is_failing
        ) THEN 'budget/' || service
    END AS gate
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate IS NULL AND due_at <= (SELECT now FROM clock)
      AND (:duty::text IS NULL OR CASE WHEN waiting_for IN ('retry', 'rate limit') THEN 'retry' ELSE 'promote' END = :duty)
    ORDER BY due_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), parked AS (
    SELECT job.id
    FROM door
    CROSS JOIN LATERAL (
        SELECT id
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate = 'duty/' || door.duty
        ORDER BY gate, priority, rank
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS job
    WHERE NOT door.is_paused AND (:duty::text IS NULL OR door.duty = :duty)
), published AS (
    SELECT job.id, job.due_at <= (SELECT now FROM clock) AS is_due,
        job.trigger = 'automatic' AND (SELECT is_paused FROM door WHERE duty = 'promote') AS is_held
    FROM mulligan_batches AS batch
    CROSS JOIN LATERAL (
        SELECT id, due_at, trigger
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate = 'batch/' || batch.id
        ORDER BY gate, priority, rank
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS job
    WHERE batch.admits AND (:duty::text IS NULL OR :duty = 'promote')
    LIMIT :limit
), held AS (
    UPDATE mulligan_jobs AS job
    SET gate = due.gate, updated_at = clock.now
    FROM due, clock
    WHERE job.id = due.id AND due.gate IS NOT NULL
    RETURNING job.id
), waiting_on AS (
    -- Members that are not due yet, or that the pause of the duty holds.
    UPDATE mulligan_jobs AS job
    SET gate = CASE WHEN published.is_due THEN 'duty/promote' END, waiting_for = 'delay', updated_at = clock.now
    FROM published, clock
    WHERE job.id = published.id AND (published.is_held OR NOT published.is_due)
    RETURNING job.id
), promoted AS (
    UPDATE mulligan_jobs
    SET state = :queued, gate = NULL, waiting_for = NULL, queued_at = clock.now, updated_at = clock.now
    FROM clock
    WHERE id = ANY (ARRAY(
        SELECT id FROM due WHERE gate IS NULL
        UNION ALL SELECT id FROM parked
        UNION ALL SELECT id FROM published WHERE is_due AND NOT is_held
    ))
    RETURNING id, kind, owner, attempt, clock.now
), logged AS (
    INSERT INTO mulligan_events (type, job, kind, owner, attempt, at)
    SELECT :event, id, kind, owner, attempt, now
    FROM promoted
)
-- The transaction has an id as soon as it locks a row, also one that another has let through meanwhile.
SELECT passed.number, kept.number + members.number,
    EXISTS (SELECT 1 FROM mulligan_services WHERE is_restricted),
    EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'budget/' AND gate < 'budget0'
    ),
    pg_current_xact_id_if_assigned() IS NOT NULL
FROM (SELECT count(*) AS number FROM promoted) AS passed,
     (SELECT count(*) AS number FROM held) AS kept,
     (SELECT count(*) AS number FROM waiting_on) AS members
