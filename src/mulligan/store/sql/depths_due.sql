-- Also if it was counted in the future: the clock was set back.
SELECT state, counted_at
FROM mulligan_depths
WHERE counted_at < (SELECT {{clock}}) - greatest(:every::bigint, took * :rest::bigint) OR counted_at > (SELECT {{clock}})
