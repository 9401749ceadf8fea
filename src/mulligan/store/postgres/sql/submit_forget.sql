-- A full bucket equals none, unless it says that the live jobs of its owner are counted. Skips those that are locked.
DELETE FROM mulligan_submissions
WHERE owner = ANY (ARRAY(
    SELECT owner
    FROM mulligan_submissions
    WHERE full_at < (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)) - :idle
      AND (counted_until IS NULL OR counted_until < {{clock}})
    ORDER BY full_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
