UPDATE mulligan_keys
SET revoked_at = coalesce(revoked_at, {{clock}})
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
RETURNING *
