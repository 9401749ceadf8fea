SELECT name
FROM mulligan_services
WHERE is_restricted
