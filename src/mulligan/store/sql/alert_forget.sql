DELETE FROM mulligan_alerts
WHERE name = :name AND subject = :subject
