-- Before any job is moved: of two workers that advance it, the second writes nothing.
SELECT id
FROM mulligan_operations
WHERE id = :id AND version = :version AND state IN ('canary', 'running')
FOR UPDATE
