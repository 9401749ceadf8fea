-- Runs of workers that are gone.
DELETE FROM mulligan_duties
WHERE at < {{clock}} - :kept
