DELETE FROM mulligan_schedules
WHERE name = :name
RETURNING name
