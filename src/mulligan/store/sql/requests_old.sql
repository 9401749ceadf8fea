SELECT id
FROM mulligan_requests
WHERE at < :before
LIMIT 1
