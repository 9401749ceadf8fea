-- What is older than the longest window says nothing any more.
DELETE FROM mulligan_tallies
WHERE updated_at < (SELECT {{clock}}) - :kept
