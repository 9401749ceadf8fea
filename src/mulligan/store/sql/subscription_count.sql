SELECT count(*) AS number
FROM mulligan_subscriptions
WHERE coalesce('/' || owner, '') = :scope
