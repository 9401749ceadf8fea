SELECT service
FROM mulligan_breakers
ORDER BY since, service
LIMIT :limit
