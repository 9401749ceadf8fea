SELECT scope, failures, first_seen_at, last_seen_at
FROM mulligan_groups
WHERE id = :id AND scope <> ''
ORDER BY failures DESC, scope
LIMIT :limit
