SELECT *
FROM mulligan_subscriptions
WHERE {conditions}
ORDER BY id
LIMIT :limit
