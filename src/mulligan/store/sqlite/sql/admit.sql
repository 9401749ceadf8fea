-- The first of those parked under a gate: a budget that allows them, or by hand a pause that is still on. Limits they pass as all others.
WITH at_the_door AS MATERIALIZED (
    SELECT place, {{limit_gate}} AS held
    FROM (
        SELECT seq AS place, owner, queue, kind
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate = :gate
        ORDER BY priority, rank
        LIMIT :limit
    )
)
UPDATE mulligan_jobs
SET state = iif(at_the_door.held IS NULL, :queued, state),
    gate = at_the_door.held,
    waiting_for = iif(at_the_door.held IS NULL, NULL, 'limit'),
    is_limited = 0,
    queued_at = iif(at_the_door.held IS NULL, :now, queued_at),
    updated_at = :now
FROM at_the_door
WHERE seq = at_the_door.place
RETURNING id, kind, owner, attempt, state
