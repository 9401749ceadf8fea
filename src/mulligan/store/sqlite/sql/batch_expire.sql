UPDATE mulligan_batches
SET state = :expired
WHERE id IN (
    SELECT id
    FROM mulligan_batches
    WHERE expires_at IS NOT NULL AND expires_at <= :now AND state IN ('ready', 'partial', 'failed')
    ORDER BY expires_at
    LIMIT :limit
)
RETURNING *, :now AS now
