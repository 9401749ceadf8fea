-- Promote due jobs, the longest due first, and those blocked by a pause that has ended; a bounded number per pass. A
-- job that is due while its duty is paused is blocked under that gate: it leaves the index of due jobs, so a million of
-- them slow nothing down. So is a retry whose owner has a budget or whose service is failing, and last a job with a
-- limit. Manually requested jobs pass all of these except the limits. Members of a batch are blocked while it is a
-- draft; once it is published they are promoted, or blocked by another gate.
WITH clock AS (
    -- Read before any row is locked: a transaction without an id gets one that is later than all it sees.
    SELECT {{clock}} AS now, pg_current_xact_id_if_assigned() IS NULL AS is_first
), duty_gate AS (
    SELECT duty, EXISTS (
        SELECT 1
        FROM mulligan_pauses, clock
        WHERE what = 'duty' AND name = duty AND (until IS NULL OR until > clock.now)
    ) AS is_paused
    FROM (VALUES ('retry'), ('promote')) AS known (duty)
), due AS (
    SELECT ctid AS spot, id, trigger, waiting_for, service, owner, queue, kind
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate IS NULL AND due_at <= (SELECT now FROM clock)
      AND (:duty::text IS NULL OR CASE WHEN waiting_for IN ('retry', 'rate limit') THEN 'retry' ELSE 'promote' END = :duty)
    ORDER BY due_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), parked AS (
    SELECT job.*
    FROM duty_gate
    CROSS JOIN LATERAL (
        SELECT ctid AS spot, id, trigger, waiting_for, service, owner, queue, kind
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate = 'duty/' || duty_gate.duty
        ORDER BY gate, priority, rank
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS job
    WHERE NOT duty_gate.is_paused AND (:duty::text IS NULL OR duty_gate.duty = :duty)
), published AS (
    SELECT job.*
    FROM mulligan_batches AS batch
    CROSS JOIN LATERAL (
        SELECT ctid AS spot, id, trigger, waiting_for, service, owner, queue, kind, due_at <= (SELECT now FROM clock) AS is_due
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate = 'batch/' || batch.id
        ORDER BY gate, priority, rank
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS job
    WHERE batch.admits AND (:duty::text IS NULL OR :duty = 'promote')
    LIMIT :limit
), gated AS (
    SELECT spot, id, CASE
        WHEN trigger = 'automatic' AND waiting_for IN ('retry', 'rate limit')
            AND (SELECT is_paused FROM duty_gate WHERE duty = 'retry') THEN 'duty/retry'
        WHEN trigger = 'automatic' AND waiting_for NOT IN ('retry', 'rate limit', 'limit')
            AND (SELECT is_paused FROM duty_gate WHERE duty = 'promote') THEN 'duty/promote'
        ELSE coalesce(
            (
                SELECT 'owner-budget/' || owner
                FROM mulligan_limits
                WHERE trigger = 'automatic' AND waiting_for = 'retry'
                  AND owner <> '' AND gate IN ('owner/' || owner, 'owner/*') AND over IS NOT NULL
                LIMIT 1
            ),
            (
                SELECT 'budget/' || name
                FROM mulligan_services
                WHERE trigger = 'automatic' AND waiting_for = 'retry' AND service <> '' AND name = service AND is_failing
            ),
            {{limit_gate}}
        )
    END AS gate
    FROM (
        SELECT * FROM due
        UNION ALL SELECT * FROM parked
        UNION ALL SELECT spot, id, trigger, waiting_for, service, owner, queue, kind FROM published WHERE is_due
    ) AS arrived
), held AS (
    UPDATE mulligan_jobs AS job
    SET gate = held.gate, waiting_for = CASE
            WHEN held.gate LIKE 'limit/%' THEN 'limit'
            WHEN waiting_for = 'batch' THEN 'delay'
            ELSE waiting_for
        END,
        updated_at = clock.now
    FROM gated AS held, clock
    -- The physical positions of the locked rows, as in `claim.sql`.
    WHERE job.ctid = ANY (ARRAY(SELECT spot FROM gated WHERE gate IS NOT NULL)) AND job.id = held.id
    RETURNING job.id
), waiting_on AS (
    -- Members that are not due yet.
    UPDATE mulligan_jobs AS job
    SET gate = NULL, waiting_for = 'delay', updated_at = clock.now
    FROM clock
    WHERE job.ctid = ANY (ARRAY(SELECT spot FROM published WHERE NOT is_due))
    RETURNING job.id
), promoted AS (
    UPDATE mulligan_jobs
    SET state = :queued, gate = NULL, waiting_for = NULL, is_limited = false, queued_at = clock.now, updated_at = clock.now
    FROM clock
    WHERE ctid = ANY (ARRAY(SELECT spot FROM gated WHERE gate IS NULL))
    RETURNING id, kind, owner, attempt, clock.now
), logged AS (
    INSERT INTO mulligan_events (xid, type, job, kind, owner, attempt, at)
    SELECT
        CASE WHEN (SELECT is_first FROM clock) THEN pg_current_xact_id() ELSE {{event_position}} END,
        :event, id, kind, owner, attempt, now
    FROM promoted AS moved
)
SELECT passed.number AS passed, kept.number + members.number AS held
FROM (SELECT count(*) AS number FROM promoted) AS passed,
     (SELECT count(*) AS number FROM held) AS kept,
     (SELECT count(*) AS number FROM waiting_on) AS members
