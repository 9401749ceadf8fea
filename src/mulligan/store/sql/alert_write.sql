INSERT INTO mulligan_alerts (
    name, subject, state, since, level, found, remedy, value, threshold, fired_at, quiet_since, is_notified
)
VALUES (
    :name, :subject, :state, :since, :level, :found, :remedy, :value, :threshold, :fired_at, :quiet_since, :is_notified
)
ON CONFLICT (name, subject) DO UPDATE
SET state = excluded.state, since = excluded.since, level = excluded.level, found = excluded.found,
    remedy = excluded.remedy, value = excluded.value, threshold = excluded.threshold, fired_at = excluded.fired_at,
    quiet_since = excluded.quiet_since, is_notified = excluded.is_notified
