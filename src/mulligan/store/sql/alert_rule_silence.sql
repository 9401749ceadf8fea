INSERT INTO mulligan_alert_rules (name, silenced_at, silenced_until, silenced_by, silenced_because)
VALUES (:name, {{clock}}, {{clock}} + :duration::bigint, :actor, :reason)
ON CONFLICT (name) DO UPDATE
SET silenced_at = excluded.silenced_at, silenced_until = excluded.silenced_until, silenced_by = excluded.silenced_by,
    silenced_because = excluded.silenced_because
