SELECT *
FROM mulligan_pauses
WHERE until IS NULL OR until > coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
ORDER BY what, name
