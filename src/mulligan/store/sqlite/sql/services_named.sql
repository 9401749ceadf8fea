SELECT name, epoch, standing, is_restricted
FROM mulligan_services
WHERE name IN (SELECT value FROM json_each(:names))
ORDER BY name
