INSERT INTO mulligan_digests (id, subscription, recipient, due_at, step, last_at)
VALUES (:id, :subscription, :recipient, NULL, 0, NULL)
ON CONFLICT DO NOTHING
