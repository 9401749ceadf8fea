-- Nothing is inserted if there is one of this name.
INSERT INTO mulligan_subscriptions (
    id, owner, name, is_in_code, choice, channel, recipient, digest, secrets, created_at, created_by, seen_at
)
VALUES (
    :id, :owner, :name, :is_in_code, :choice, :channel, :recipient, :digest, :secrets, {{clock}}, :created_by,
    CASE WHEN :is_in_code THEN {{clock}} END
)
ON CONFLICT DO NOTHING
RETURNING *
