-- A full bucket equals none, unless it says that the live jobs of its owner are counted.
DELETE FROM mulligan_submissions
WHERE owner IN (
    SELECT owner
    FROM mulligan_submissions
    WHERE full_at < coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)) - :idle
      AND (counted_until IS NULL OR counted_until < coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)))
    ORDER BY full_at
    LIMIT :limit
)
