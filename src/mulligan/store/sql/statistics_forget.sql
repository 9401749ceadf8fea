-- One minute, hour or day: it has a limited number of rows.
DELETE FROM mulligan_statistics
WHERE span = :span AND at = :at
