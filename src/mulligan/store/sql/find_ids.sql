-- The id equal to this, then those that begin or end with it, the newest first. The index finds a beginning. An end is
-- searched among the newest ids, which the index returns without their rows: an index of the ends would cost every
-- enqueue, claim and settle more than these rare searches.
SELECT id
FROM (
    SELECT id
    FROM {table}
    WHERE {conditions} AND id = :part
    UNION
    SELECT id
    FROM (
        SELECT id
        FROM {table}
        WHERE {conditions} AND id >= :part::text AND id < :part::text || '~'
        ORDER BY id DESC
        LIMIT :limit
    ) AS beginning
    UNION
    SELECT id
    FROM (
        SELECT id
        FROM {table}
        WHERE {conditions} AND substr(id, length(id) - length(:part::text) + 1) = :part AND id >= coalesce((
            SELECT id
            FROM {table}
            WHERE {conditions}
            ORDER BY id DESC
            LIMIT 1 OFFSET :newest - 1
        ), '')
        ORDER BY id DESC
        LIMIT :limit
    ) AS ending
) AS found
ORDER BY id <> :part, id DESC
LIMIT :limit
