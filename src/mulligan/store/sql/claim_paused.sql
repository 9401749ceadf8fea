SELECT what, name
FROM mulligan_pauses
WHERE what IN ('queue', 'kind', 'service') AND (until IS NULL OR until > :now)
