SELECT id
FROM mulligan_requests
WHERE at < :before
ORDER BY at
LIMIT 1
