UPDATE mulligan_subscriptions
SET secrets = :secrets, disabled_at = :disabled_at, disabled_because = :disabled_because
WHERE id = :id
RETURNING *
