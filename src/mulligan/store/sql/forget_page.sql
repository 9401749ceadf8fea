-- The last of the next rows of a table. Only those are looked at in one transaction.
SELECT count(*) AS number, max(key) AS last
FROM (
    SELECT {key} AS key
    FROM {table}
    WHERE {conditions} AND {key} > :after
    ORDER BY {key}
    LIMIT :limit
) AS page
