-- Waits for all who are adding members. What they added is seen by the statement after this one, not by this one.
SELECT batch.*, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
FROM mulligan_batches AS batch
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
FOR UPDATE
