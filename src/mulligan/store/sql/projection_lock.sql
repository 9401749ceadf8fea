SELECT position
FROM mulligan_projection
FOR UPDATE
