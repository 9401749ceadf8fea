-- Move retries to the next gate that blocks them, or into their lanes.
WITH gated AS (
    SELECT id, coalesce(
        (
            SELECT 'budget/' || name
            FROM mulligan_services
            WHERE service <> '' AND name = service AND is_failing
        ),
        {{limit_gate}}
    ) AS held
    FROM mulligan_jobs
    WHERE id IN (SELECT json_array_elements_text(:ids::json)) AND state = 'waiting'
)
UPDATE mulligan_jobs AS job
SET state = CASE WHEN held IS NULL THEN :queued ELSE job.state END,
    gate = held,
    waiting_for = CASE WHEN held IS NULL THEN NULL WHEN held LIKE 'limit/%' THEN 'limit' ELSE 'retry' END,
    due_at = least(due_at, :now),
    is_limited = false,
    queued_at = CASE WHEN held IS NULL THEN :now ELSE job.queued_at END,
    updated_at = :now
FROM gated
WHERE job.id = gated.id
RETURNING job.id, job.kind, job.owner, job.attempt, job.state
