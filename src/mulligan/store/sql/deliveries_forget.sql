-- What waits to be sent or to be told in a digest stays.
DELETE FROM mulligan_deliveries
WHERE id IN (
    SELECT id
    FROM mulligan_deliveries
    WHERE updated_at < :before AND state <> 'pending' AND (state <> 'suppressed' OR digest IS NOT NULL)
    ORDER BY updated_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
RETURNING id
