-- The first jobs blocked under a gate: a budget that allows them, or for a manual run a pause still in force. Limits
-- apply to them as to all others.
WITH gated AS MATERIALIZED (
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
SET state = iif(gated.held IS NULL, :queued, state),
    gate = gated.held,
    waiting_for = iif(gated.held IS NULL, NULL, 'limit'),
    is_limited = 0,
    queued_at = iif(gated.held IS NULL, :now, queued_at),
    updated_at = :now
FROM gated
WHERE seq = gated.place
RETURNING id, kind, owner, attempt, state
