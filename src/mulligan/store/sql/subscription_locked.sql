SELECT *
FROM mulligan_subscriptions
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
FOR UPDATE
