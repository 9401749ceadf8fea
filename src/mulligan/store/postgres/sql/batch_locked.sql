-- Waits for all transactions that add members. The statement after this one sees what they added; this one does not.
SELECT batch.*, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
FROM mulligan_batches AS batch
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
FOR UPDATE
