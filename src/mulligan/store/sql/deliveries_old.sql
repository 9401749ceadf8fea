SELECT 1 AS one
WHERE EXISTS (SELECT 1 FROM mulligan_deliveries WHERE updated_at < :before)
