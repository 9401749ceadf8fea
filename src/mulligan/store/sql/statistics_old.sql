SELECT min(at) AS at
FROM mulligan_statistics
WHERE span = :span
