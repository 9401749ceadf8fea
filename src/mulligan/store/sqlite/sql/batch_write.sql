-- The caller holds the lock of the row.
UPDATE mulligan_batches
SET state = :state, generation = :generation, total = :total, published_at = :published_at, settled_at = :settled_at,
    aborted_at = :aborted_at, admits = max(admits, :admits)
WHERE id = :id
