-- What is older than the longest window says nothing any more.
DELETE FROM mulligan_tallies
WHERE updated_at < (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)) - :kept
