UPDATE mulligan_depths
SET counted_at = {{clock}}
WHERE state = :state AND counted_at = :before
RETURNING state
