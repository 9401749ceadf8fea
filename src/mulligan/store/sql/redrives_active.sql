-- The oldest first: each gets its turn.
SELECT *
FROM mulligan_operations
WHERE state IN ('canary', 'running')
ORDER BY id
LIMIT :limit
