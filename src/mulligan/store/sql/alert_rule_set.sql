INSERT INTO mulligan_alert_rules (name, edited, edited_at, edited_by, reason)
VALUES (:name, :terms, {{clock}}, :actor, :reason)
ON CONFLICT (name) DO UPDATE
SET edited = excluded.edited, edited_at = excluded.edited_at, edited_by = excluded.edited_by, reason = excluded.reason
