SELECT id
FROM mulligan_keys
WHERE coalesce('/' || owner, '') = coalesce('/' || :owner::text, '') AND request = :request
