INSERT INTO mulligan_incidents (
    id, subscription, recipient, type, kind, owner, code, error_group, title, opened_at, last_at, number
)
VALUES (
    :id, :subscription, :recipient, :type, :kind, :owner, :code, :error_group, :title, :opened_at, :last_at, :number
)
ON CONFLICT (id) DO UPDATE
SET last_at = excluded.last_at, number = excluded.number
