UPDATE mulligan_operations
SET state = 'cancelled', because = :because, ended_at = :now, version = version + 1
WHERE id = :id AND (:owner IS NULL OR owner = :owner) AND state IN ('canary', 'running')
RETURNING id
