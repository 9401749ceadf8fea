-- Only what the index of failures holds. The outcomes are spelled out, so that SQLite recognises its condition.
SELECT at - at % :step::bigint AS at, outcome, sum(number)::bigint AS number
FROM mulligan_statistics
WHERE span = :span AND at >= :since AND at < :until AND outcome IN ('retried', 'failed', 'recovered') AND {conditions}
GROUP BY 1, outcome
ORDER BY 1
