-- Retries that were promoted and have not reported a call, and those that wait for a slot.
SELECT (
    SELECT count(*)
    FROM mulligan_jobs
    WHERE service <> '' AND failures > 0 AND state IN ('queued', 'running') AND service = :service
) + (
    SELECT count(*)
    FROM mulligan_jobs
    WHERE state = 'waiting' AND waiting_for = 'limit' AND failures > 0 AND service <> '' AND service = :service
) AS number
