-- The newest first.
SELECT *
FROM mulligan_operations
WHERE (:id::text IS NULL OR id = :id) AND (:owner::text IS NULL OR owner = :owner)
ORDER BY id DESC
LIMIT :limit
