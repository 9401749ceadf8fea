INSERT INTO mulligan_cursors (name, position, updated_at)
VALUES (:name, :position, {{clock}})
ON CONFLICT (name) DO UPDATE
SET position = excluded.position, updated_at = excluded.updated_at
