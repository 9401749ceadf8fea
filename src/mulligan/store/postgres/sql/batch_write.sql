-- The caller holds the lock of the row.
UPDATE mulligan_batches
SET state = :state, generation = :generation, total = :total, published_at = :published_at, settled_at = :settled_at,
    aborted_at = :aborted_at, admits = admits OR :admits::boolean
WHERE id = :id
