UPDATE mulligan_alert_rules
SET silenced_at = NULL, silenced_until = NULL, silenced_by = NULL, silenced_because = NULL
WHERE name = :name
