-- Move retries to the next gate that blocks them, or into their lanes.
UPDATE mulligan_jobs
SET state = iif(held IS NULL, :queued, state),
    gate = held,
    waiting_for = CASE WHEN held IS NULL THEN NULL WHEN held LIKE 'limit/%' THEN 'limit' ELSE 'retry' END,
    due_at = min(due_at, :now),
    is_limited = 0,
    queued_at = iif(held IS NULL, :now, queued_at),
    updated_at = :now
FROM (
    SELECT seq AS place, coalesce(
        (
            SELECT 'budget/' || name
            FROM mulligan_services
            WHERE service <> '' AND name = service AND is_failing
        ),
        {{limit_gate}}
    ) AS held
    FROM mulligan_jobs
    WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'waiting'
) AS gated
WHERE seq = gated.place
RETURNING id, kind, owner, attempt, state
