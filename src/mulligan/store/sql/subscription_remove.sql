DELETE FROM mulligan_subscriptions
WHERE id = :id
RETURNING id
