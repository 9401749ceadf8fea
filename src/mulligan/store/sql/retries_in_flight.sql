-- Retries that passed the door and were not heard of, and those that wait there for a place.
SELECT (
    SELECT count(*)
    FROM mulligan_jobs
    WHERE service <> '' AND failures > 0 AND state IN ('queued', 'running') AND service = :service
) + (
    SELECT count(*)
    FROM mulligan_jobs
    WHERE state = 'waiting' AND waiting_for = 'limit' AND failures > 0 AND service <> '' AND service = :service
) AS number
