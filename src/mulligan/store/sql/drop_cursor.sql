DELETE FROM mulligan_cursors
WHERE name = :name
RETURNING name
