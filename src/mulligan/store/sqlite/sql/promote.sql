-- The door: jobs that are due, the longest due first, and those parked under a pause that is over; a bounded number a
-- pass. One that is due while its duty is paused is parked under that gate: it leaves the due index, and a million of
-- them stand in nobody's way. So is a retry while its service is failing: it waits for the budget. What somebody asked for
-- by hand passes all the same. Members of a batch are parked while it is a draft; once it is published they come in, or wait
-- for what else there is to wait for.
UPDATE mulligan_jobs
SET state = iif(at_the_door.held IS NULL AND at_the_door.is_due, :queued, state),
    gate = at_the_door.held,
    waiting_for = iif(at_the_door.held IS NULL AND at_the_door.is_due, NULL, iif(waiting_for = 'batch', 'delay', waiting_for)),
    queued_at = iif(at_the_door.held IS NULL AND at_the_door.is_due, :now, queued_at),
    updated_at = :now
FROM (
    SELECT due.place, true AS is_due, iif(due.trigger = 'automatic', coalesce(
        (
            SELECT 'duty/' || name
            FROM mulligan_pauses
            WHERE what = 'duty' AND name = due.duty AND (until IS NULL OR until > :now)
        ),
        (
            SELECT 'budget/' || name
            FROM mulligan_services
            WHERE due.waiting_for = 'retry' AND name = due.service AND is_failing
        )
    ), NULL) AS held
    FROM (
        SELECT seq AS place, trigger, service, waiting_for, iif(waiting_for IN ('retry', 'rate limit'), 'retry', 'promote') AS duty
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NULL AND due_at <= :now
          AND (:duty IS NULL OR iif(waiting_for IN ('retry', 'rate limit'), 'retry', 'promote') = :duty)
        ORDER BY due_at
        LIMIT :limit
    ) AS due
    UNION ALL
    SELECT parked.place, true, NULL
    FROM (
        SELECT seq AS place
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IN (
            SELECT 'duty/' || door.value
            FROM json_each('["retry", "promote"]') AS door
            WHERE (:duty IS NULL OR door.value = :duty) AND NOT EXISTS (
                SELECT 1
                FROM mulligan_pauses
                WHERE what = 'duty' AND name = door.value AND (until IS NULL OR until > :now)
            )
        )
        LIMIT :limit
    ) AS parked
    UNION ALL
    SELECT published.place, published.is_due, iif(published.is_due, (
        SELECT 'duty/promote'
        FROM mulligan_pauses
        WHERE what = 'duty' AND name = 'promote' AND published.trigger = 'automatic' AND (until IS NULL OR until > :now)
    ), NULL)
    FROM (
        SELECT seq AS place, trigger, due_at <= :now AS is_due
        FROM mulligan_batches AS batch
        CROSS JOIN mulligan_jobs AS job ON job.gate = 'batch/' || batch.id
        WHERE batch.admits = 1 AND job.state = 'waiting' AND (:duty IS NULL OR :duty = 'promote')
        LIMIT :limit
    ) AS published
) AS at_the_door
WHERE seq = at_the_door.place
RETURNING id, kind, owner, attempt, state
