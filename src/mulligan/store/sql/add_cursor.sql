INSERT INTO mulligan_cursors (name, position, updated_at)
VALUES (:name, 0, {{clock}})
ON CONFLICT (name) DO NOTHING
