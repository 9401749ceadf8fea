-- A full bucket equals none. Skips those that are locked.
DELETE FROM mulligan_submissions
WHERE owner = ANY (ARRAY(
    SELECT owner
    FROM mulligan_submissions
    WHERE full_at < (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)) - :idle
    ORDER BY full_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
