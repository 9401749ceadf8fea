DELETE FROM mulligan_requests
WHERE (owner, id) IN (
    SELECT owner, id
    FROM mulligan_requests
    WHERE at < :before
    ORDER BY at
    LIMIT :limit
)
RETURNING id
