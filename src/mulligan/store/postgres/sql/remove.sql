-- Jobs with their events, if all cursors have passed these.
WITH removable AS (
    SELECT id
    FROM unnest(:ids::text[]) AS id
    WHERE NOT EXISTS (
        SELECT 1
        FROM mulligan_events, mulligan_log
        WHERE job = id AND xid::text::bigint + base > (SELECT min(position) FROM mulligan_cursors)
    )
), removed AS (
    DELETE FROM mulligan_jobs
    WHERE id = ANY (ARRAY(SELECT id FROM removable))
), history AS (
    DELETE FROM mulligan_events
    WHERE job = ANY (ARRAY(SELECT id FROM removable))
)
SELECT count(*) AS number
FROM removable
