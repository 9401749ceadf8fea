SELECT *
FROM mulligan_operations
WHERE coalesce('/' || owner, '') = coalesce('/' || :owner::text, '') AND request = :request
