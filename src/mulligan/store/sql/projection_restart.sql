UPDATE mulligan_projection
SET rebuilt_until = greatest(rebuilt_until, position), rebuilt_since = :since, position = :position,
    updated_at = {{clock}}, missed_at = CASE WHEN :position = 0 THEN NULL ELSE missed_at END
