SELECT position, at, updated_at, missed_at, rebuilt_until, rebuilt_since
FROM mulligan_projection
