-- Whether a job recovered from a failure that is older than the log cannot be found again.
DELETE FROM mulligan_statistics
WHERE at >= :since AND (:since::bigint = 0 OR outcome NOT IN ('recovered', 'unrecovered'))
