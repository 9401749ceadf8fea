SELECT *
FROM mulligan_pauses
WHERE until IS NULL OR until > {{clock}}
ORDER BY what, name
