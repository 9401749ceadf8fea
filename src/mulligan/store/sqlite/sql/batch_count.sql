-- The last statement of every transaction that ends jobs or retries them: all their batches at once.
UPDATE mulligan_batches
SET succeeded = mulligan_batches.succeeded + tally.succeeded,
    failed = mulligan_batches.failed + tally.failed,
    cancelled = mulligan_batches.cancelled + tally.cancelled
FROM (
    SELECT
        json_extract(value, '$.id') AS batch,
        json_extract(value, '$.succeeded') AS succeeded,
        json_extract(value, '$.failed') AS failed,
        json_extract(value, '$.cancelled') AS cancelled
    FROM json_each(:tallies)
) AS tally
WHERE id = tally.batch
RETURNING *, :now AS now
