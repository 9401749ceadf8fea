-- The last statement of every transaction that ends jobs or retries them: all their batches at once. A transaction that
-- waits here for another sees the other's counts in the returned rows, so exactly one of them sees the last member end.
WITH tally AS (
    SELECT *
    FROM json_to_recordset(:tallies::json) AS tally (id text, succeeded bigint, failed bigint, cancelled bigint)
), locked AS MATERIALIZED (
    -- One order for all transactions: two that end members of the same batches must not deadlock.
    SELECT id
    FROM mulligan_batches
    WHERE id IN (SELECT id FROM tally)
    ORDER BY id
    FOR NO KEY UPDATE
)
UPDATE mulligan_batches AS batch
SET succeeded = batch.succeeded + tally.succeeded,
    failed = batch.failed + tally.failed,
    cancelled = batch.cancelled + tally.cancelled
FROM locked
JOIN tally ON tally.id = locked.id
WHERE batch.id = locked.id
RETURNING batch.*, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
