-- The groups of one scope that were seen last, with what was decided about them, but without their documents.
SELECT own.id, own.kind, own.code, own.failures, own.first_seen_at, own.last_seen_at, own.heat,
    whole.failures AS all_failures, whole.owners, whole.decision, whole.decided_at, whole.ignored_until,
    whole.ignored_below, whole.regressed_at
FROM mulligan_groups AS own
JOIN mulligan_groups AS whole ON whole.id = own.id AND whole.scope = ''
WHERE own.scope = :scope AND own.failures > 0 AND {conditions}
ORDER BY own.last_seen_at DESC
LIMIT :limit
