SELECT *
FROM mulligan_cursors
ORDER BY position, name
