SELECT verb, digest, answer
FROM mulligan_requests
WHERE owner = :owner AND id = :id
