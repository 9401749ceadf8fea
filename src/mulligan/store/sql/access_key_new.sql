-- Nothing is inserted if the id is taken, or if this request created a key already.
INSERT INTO mulligan_keys (id, owner, name, scopes, digest, last_four, created_at, created_by, expires_at, request)
VALUES (
    :id, :owner, :name, :scopes, :digest, :last_four, {{clock}}, :created_by, {{clock}} + :expires_in::bigint, :request
)
ON CONFLICT DO NOTHING
RETURNING *
