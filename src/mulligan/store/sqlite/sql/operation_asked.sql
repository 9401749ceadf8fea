SELECT *
FROM mulligan_operations
WHERE coalesce('/' || owner, '') = coalesce('/' || :owner, '') AND request = :request
