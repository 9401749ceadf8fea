SELECT *, :now AS now
FROM mulligan_batches
WHERE id = :id AND (:owner IS NULL OR owner = :owner)
