-- A full bucket equals none.
DELETE FROM mulligan_submissions
WHERE owner IN (
    SELECT owner
    FROM mulligan_submissions
    WHERE full_at < coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)) - :idle
    ORDER BY full_at
    LIMIT :limit
)
