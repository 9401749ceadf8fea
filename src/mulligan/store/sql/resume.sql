DELETE FROM mulligan_pauses
WHERE what = :what AND name = :name
RETURNING *
