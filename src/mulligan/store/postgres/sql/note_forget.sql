-- Rounds of workers that are gone.
DELETE FROM mulligan_duties
WHERE at < coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) - :kept
