-- Only if the log is folded as far as the reader found it. Another process waits for this row.
UPDATE mulligan_projection
SET position = :position, at = greatest(at, :at::bigint), updated_at = {{clock}},
    missed_at = CASE WHEN :missed::bigint = 1 THEN {{clock}} ELSE missed_at END
WHERE position = :before
RETURNING rebuilt_until, rebuilt_since
