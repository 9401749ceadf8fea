-- Events that are no failures have no end that could be told.
DELETE FROM mulligan_incidents
WHERE error_group IS NULL AND last_at < {{clock}} - :quiet
