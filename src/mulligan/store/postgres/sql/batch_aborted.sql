-- Aborted batches with members that must not run any more.
SELECT batch.*, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
FROM mulligan_batches AS batch
WHERE aborted_at IS NOT NULL AND state = 'processing'
LIMIT :limit
