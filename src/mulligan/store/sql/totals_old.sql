SELECT *
FROM mulligan_totals
WHERE updated_at < :before
