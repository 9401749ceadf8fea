-- Only if the cursor is still where the reader found it. Another reader waits for this row.
UPDATE mulligan_cursors
SET position = :position, updated_at = {{clock}}
WHERE name = :name AND position = :before
RETURNING name
