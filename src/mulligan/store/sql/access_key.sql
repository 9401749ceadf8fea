SELECT *, {{clock}} AS now
FROM mulligan_keys
WHERE id = :id
