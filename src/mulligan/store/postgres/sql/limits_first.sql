-- The first jobs blocked under each of these gates.
SELECT job.*
FROM json_array_elements_text(:gates::json) AS given (gate)
CROSS JOIN LATERAL (
    SELECT id, gate, kind, queue, owner, service, priority, rank
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate = given.gate
    ORDER BY gate, priority, rank
    LIMIT :each
    FOR UPDATE SKIP LOCKED
) AS job
