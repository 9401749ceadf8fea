SELECT id
FROM mulligan_deliveries
WHERE subscription = :subscription AND recipient = :recipient AND state = 'suppressed' AND digest IS NULL
ORDER BY id
LIMIT :limit
