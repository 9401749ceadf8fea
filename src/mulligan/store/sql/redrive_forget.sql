DELETE FROM mulligan_operations
WHERE ended_at < {{clock}} - :kept
