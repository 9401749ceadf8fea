SELECT id, owner
FROM mulligan_keys
WHERE {conditions} AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > {{clock}})
LIMIT 1
