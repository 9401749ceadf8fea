SELECT name, epoch, standing
FROM mulligan_services
WHERE name = :name
