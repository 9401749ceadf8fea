SELECT *
FROM mulligan_alert_rules
