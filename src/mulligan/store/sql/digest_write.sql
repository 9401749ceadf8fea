UPDATE mulligan_digests
SET due_at = :due_at, step = :step, last_at = :last_at
WHERE id = :id
