UPDATE mulligan_hooks
SET called_at = {{clock}}
WHERE id = :id
