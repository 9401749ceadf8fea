SELECT *
FROM mulligan_deliveries
WHERE {conditions}
ORDER BY id DESC
LIMIT :limit
