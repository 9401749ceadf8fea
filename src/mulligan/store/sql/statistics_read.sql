SELECT at, kind, owner, service, outcome, code, attempt, is_other, number, seconds, cost, histogram
FROM mulligan_statistics
WHERE span = :span AND at >= :since AND at < :until AND {conditions}
ORDER BY at DESC, kind, owner, service, outcome, code, attempt
LIMIT :limit
