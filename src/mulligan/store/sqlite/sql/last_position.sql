-- The position of a deleted event counts: a reader that begins there misses nothing.
SELECT max(coalesce((
    SELECT position
    FROM mulligan_events
    ORDER BY position DESC
    LIMIT 1 OFFSET :back
), 0), iif(:back = 0, pruned, 0)) AS position
FROM mulligan_log
