SELECT *
FROM mulligan_schedules
ORDER BY name
