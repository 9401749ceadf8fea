-- The groups of one scope that were seen last: orders without an index choose from these.
(
    SELECT id, scope, kind, code, failures, first_seen_at, last_seen_at
    FROM mulligan_groups
    WHERE scope = :scope AND failures > 0
    ORDER BY last_seen_at DESC
    LIMIT :most
) AS own
JOIN mulligan_groups AS whole ON whole.id = own.id AND whole.scope = ''
