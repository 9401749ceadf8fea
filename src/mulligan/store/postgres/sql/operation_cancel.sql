UPDATE mulligan_operations
SET state = 'cancelled', because = :because::text, ended_at = coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), version = version + 1
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner) AND state IN ('canary', 'running')
RETURNING id
