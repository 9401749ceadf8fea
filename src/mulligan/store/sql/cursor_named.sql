SELECT position
FROM mulligan_cursors
WHERE name = :name
