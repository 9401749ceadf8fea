-- The minute that has the bound in it belongs to the recent ones.
SELECT kind, outcome, code, attempt > 1 AS is_retry, at > :recent - 60000000 AS is_recent, sum(number)::bigint AS number
FROM mulligan_statistics
WHERE span = :span AND at > :since - 60000000
GROUP BY kind, outcome, code, attempt > 1, at > :recent - 60000000
