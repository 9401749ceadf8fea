-- Jobs with their events, if all cursors have passed these. Readers learn how far events were deleted.
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
), failing AS (
    DELETE FROM mulligan_failing
    WHERE job = ANY (ARRAY(SELECT id FROM removable))
), history AS (
    DELETE FROM mulligan_events
    WHERE job = ANY (ARRAY(SELECT id FROM removable))
    RETURNING xid::text::bigint AS xid
), noted AS (
    UPDATE mulligan_log
    SET pruned = greatest(pruned, base + coalesce((SELECT max(xid) FROM history), 0))
    WHERE EXISTS (SELECT 1 FROM history)
)
SELECT count(*) AS number
FROM removable
