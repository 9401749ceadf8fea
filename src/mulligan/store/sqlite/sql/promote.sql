-- Promote due jobs, the longest due first, and those blocked by a pause that has ended; a bounded number per pass. A
-- job that is due while its duty is paused is blocked under that gate: it leaves the index of due jobs, so a million of
-- them slow nothing down. So is a retry whose owner has a budget or whose service is failing, and last a job with a
-- limit. Manually requested jobs pass all of these except the limits. Members of a batch are blocked while it is a
-- draft; once it is published they are promoted, or blocked by another gate. MATERIALIZED computes the gate once per
-- job: merged into the update, it would be computed for every column.
WITH gated AS MATERIALIZED (
    SELECT arrived.place, arrived.is_due, iif(arrived.is_due, coalesce(
        (
            SELECT 'duty/' || name
            FROM mulligan_pauses
            WHERE arrived.trigger = 'automatic' AND arrived.waiting_for <> 'limit'
              AND what = 'duty' AND name = arrived.duty AND (until IS NULL OR until > :now)
        ),
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
            WHERE arrived.trigger = 'automatic' AND arrived.waiting_for = 'retry' AND name = arrived.service AND is_failing
        ),
        {{limit_gate}}
    ), NULL) AS held
    FROM (
        SELECT * FROM (
            SELECT seq AS place, true AS is_due, trigger, service, owner, queue, kind, waiting_for,
                iif(waiting_for IN ('retry', 'rate limit'), 'retry', 'promote') AS duty
            FROM mulligan_jobs
            WHERE state = 'waiting' AND gate IS NULL AND due_at <= :now
              AND (:duty IS NULL OR iif(waiting_for IN ('retry', 'rate limit'), 'retry', 'promote') = :duty)
            ORDER BY due_at
            LIMIT :limit
        )
        UNION ALL
        SELECT * FROM (
            SELECT seq, true, trigger, service, owner, queue, kind, waiting_for, ''
            FROM mulligan_jobs
            WHERE state = 'waiting' AND gate IN (
                SELECT 'duty/' || known.value
                FROM json_each('["retry", "promote"]') AS known
                WHERE (:duty IS NULL OR known.value = :duty) AND NOT EXISTS (
                    SELECT 1
                    FROM mulligan_pauses
                    WHERE what = 'duty' AND name = known.value AND (until IS NULL OR until > :now)
                )
            )
            LIMIT :limit
        )
        UNION ALL
        SELECT * FROM (
            SELECT job.seq, job.due_at <= :now, job.trigger, job.service, job.owner, job.queue, job.kind, job.waiting_for, 'promote'
            FROM mulligan_batches AS batch
            CROSS JOIN mulligan_jobs AS job ON job.gate = 'batch/' || batch.id
            WHERE batch.admits = 1 AND job.state = 'waiting' AND (:duty IS NULL OR :duty = 'promote')
            LIMIT :limit
        )
    ) AS arrived
)
UPDATE mulligan_jobs
SET state = iif(gated.held IS NULL AND gated.is_due, :queued, state),
    gate = gated.held,
    waiting_for = CASE
        WHEN gated.held IS NULL AND gated.is_due THEN NULL
        WHEN gated.held LIKE 'limit/%' THEN 'limit'
        WHEN waiting_for = 'batch' THEN 'delay'
        ELSE waiting_for
    END,
    is_limited = iif(gated.held IS NULL AND gated.is_due, 0, is_limited),
    queued_at = iif(gated.held IS NULL AND gated.is_due, :now, queued_at),
    updated_at = :now
FROM gated
WHERE seq = gated.place
RETURNING id, kind, owner, attempt, state
