SELECT count(*) AS number
FROM mulligan_hooks
WHERE coalesce('/' || owner, '') = :scope
