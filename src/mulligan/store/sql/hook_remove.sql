DELETE FROM mulligan_hooks
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
RETURNING *
