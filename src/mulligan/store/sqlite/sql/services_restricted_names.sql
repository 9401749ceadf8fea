SELECT name
FROM mulligan_services
WHERE is_restricted AND name IN (SELECT value FROM json_each(:names))
