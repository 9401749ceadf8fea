UPDATE mulligan_groups
SET decision = :decision, decided_at = {{clock}}, decided_by = :actor, reason = :reason,
    ignored_until = {{clock}} + :until::bigint, ignored_below = :below, regressed_at = NULL
WHERE id = :id AND scope = ''
