-- What recovered after a failure that is older than the log cannot be found again.
DELETE FROM mulligan_statistics
WHERE at >= :since AND (:since::bigint = 0 OR outcome <> 'recovered')
