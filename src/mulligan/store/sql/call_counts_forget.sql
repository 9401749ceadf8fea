-- Counts older than the longest window are not used any more.
DELETE FROM mulligan_tallies
WHERE updated_at < (SELECT {{clock}}) - :kept
