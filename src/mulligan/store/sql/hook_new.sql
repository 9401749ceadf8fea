INSERT INTO mulligan_hooks (id, owner, name, error_group, batch, secret, created_at, created_by)
VALUES (:id, :owner, :name, :error_group, :batch, :secret, {{clock}}, :created_by)
ON CONFLICT DO NOTHING
RETURNING *
