UPDATE mulligan_operations
SET state = 'cancelled', because = :because::text, ended_at = {{clock}}, version = version + 1
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner) AND state IN ('canary', 'running')
RETURNING id
