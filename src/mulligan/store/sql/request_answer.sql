UPDATE mulligan_requests
SET answer = :answer
WHERE owner = :owner AND id = :id
