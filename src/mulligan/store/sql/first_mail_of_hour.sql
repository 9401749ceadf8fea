SELECT created_at
FROM mulligan_deliveries
WHERE channel = 'email' AND state IN ('pending', 'delivered', 'failed')
    AND recipient = :recipient AND created_at > {{clock}} - 3600000000
ORDER BY created_at
LIMIT 1
