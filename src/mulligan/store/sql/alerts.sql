SELECT *
FROM mulligan_alerts
ORDER BY name, subject
