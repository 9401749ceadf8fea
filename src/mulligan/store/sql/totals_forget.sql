DELETE FROM mulligan_totals
WHERE name = :name AND labels = :labels
