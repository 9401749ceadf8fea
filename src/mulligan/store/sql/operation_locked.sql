-- Before any job is moved for it: of two that are at work on it the second one writes nothing.
SELECT id
FROM mulligan_operations
WHERE id = :id AND version = :version AND state IN ('canary', 'running')
FOR UPDATE
