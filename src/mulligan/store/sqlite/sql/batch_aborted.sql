-- Aborted, and members are left that may not run yet.
SELECT *, :now AS now
FROM mulligan_batches
WHERE aborted_at IS NOT NULL AND state = 'processing'
LIMIT :limit
