-- The newest first.
SELECT *
FROM mulligan_operations
WHERE (:id IS NULL OR id = :id) AND (:owner IS NULL OR owner = :owner)
ORDER BY id DESC
LIMIT :limit
