INSERT INTO mulligan_alert_rules (name, in_code)
VALUES (:name, :terms)
ON CONFLICT (name) DO UPDATE
SET in_code = excluded.in_code
