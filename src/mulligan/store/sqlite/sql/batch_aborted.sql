-- Aborted batches with members that must not run any more.
SELECT *, :now AS now
FROM mulligan_batches
WHERE aborted_at IS NOT NULL AND state = 'processing'
LIMIT :limit
