SELECT position
FROM mulligan_events
ORDER BY position DESC
LIMIT 1 OFFSET :back
