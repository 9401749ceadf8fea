-- Only if nothing was added since it was read.
DELETE FROM mulligan_incidents
WHERE id = :id AND number = :number
RETURNING id
