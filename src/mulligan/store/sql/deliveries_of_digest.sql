SELECT *
FROM mulligan_deliveries
WHERE digest = :digest
ORDER BY id
LIMIT :limit
