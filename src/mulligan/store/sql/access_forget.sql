-- Rows that another transaction uses are left to the next round.
DELETE FROM {table}
WHERE {key} IN (
    SELECT {key}
    FROM {table}
    WHERE {conditions}
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
RETURNING {key} AS gone
