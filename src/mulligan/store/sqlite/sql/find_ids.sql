-- An id like this, then those that begin or end like it, the newest first. A beginning is found by the index; an end among the newest ids,
-- which the index gives without their rows: an index of the ends would cost every enqueue, claim and settle more than this costs the few
-- who ask.
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
        WHERE {conditions} AND id >= :part AND id < :part || '~'
        ORDER BY id DESC
        LIMIT :limit
    ) AS beginning
    UNION
    SELECT id
    FROM (
        SELECT id
        FROM {table}
        WHERE {conditions}
        ORDER BY id DESC
        LIMIT :newest
    ) AS newest
    WHERE substr(id, -length(:part)) = :part
) AS found
ORDER BY id <> :part, id DESC
LIMIT :limit
