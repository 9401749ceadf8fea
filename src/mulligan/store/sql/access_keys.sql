SELECT *
FROM mulligan_keys
WHERE {conditions}
ORDER BY id
LIMIT :limit
