INSERT INTO mulligan_cursors (name, position, updated_at)
VALUES (:name, :position, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
ON CONFLICT (name) DO UPDATE
SET position = excluded.position, updated_at = excluded.updated_at
