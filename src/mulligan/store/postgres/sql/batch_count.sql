-- The last statement of whatever ends jobs or brings them back: all their batches at once. Who waits here for another
-- sees the other's counts in what he gets back, so exactly one of them sees the last member come in.
WITH tally AS (
    SELECT *
    FROM json_to_recordset(:tallies::json) AS tally (id text, succeeded bigint, failed bigint, cancelled bigint)
), locked AS MATERIALIZED (
    -- One order for all: two that end members of the same batches must not wait for each other in a circle.
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
