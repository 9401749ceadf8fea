-- The event of a manual request that was carried out before, with its answer.
SELECT at, actor, data
FROM mulligan_events
WHERE request = :request
