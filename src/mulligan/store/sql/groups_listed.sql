-- The ids of one page of groups. Those with the highest impact are found by an index.
SELECT own.id
FROM {source}
WHERE own.scope = :scope AND own.failures > 0 AND {conditions}
ORDER BY own.{order} DESC, own.id
LIMIT :limit OFFSET :skip
