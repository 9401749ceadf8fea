-- The first attempt decides what is sent.
UPDATE mulligan_deliveries
SET body = coalesce(body, :body)
WHERE id = :id
RETURNING body
