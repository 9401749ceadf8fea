SELECT service, since, counted_until
FROM mulligan_breakers
ORDER BY since, service
