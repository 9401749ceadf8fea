SELECT state, number
FROM mulligan_depths
WHERE counted_at > (SELECT {{clock}}) - :fresh
