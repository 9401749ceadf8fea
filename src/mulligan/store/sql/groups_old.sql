SELECT id
FROM mulligan_groups
WHERE scope = '' AND last_seen_at < :before
ORDER BY last_seen_at
LIMIT :limit
