SELECT *
FROM mulligan_hooks
WHERE {conditions}
ORDER BY id
LIMIT :limit
