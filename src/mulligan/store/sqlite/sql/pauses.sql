SELECT *
FROM mulligan_pauses
WHERE until IS NULL OR until > :now
ORDER BY what, name
