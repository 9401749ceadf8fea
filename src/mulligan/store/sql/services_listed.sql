SELECT name, epoch, standing
FROM mulligan_services
ORDER BY name
