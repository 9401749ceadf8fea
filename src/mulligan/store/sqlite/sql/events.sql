SELECT *
FROM mulligan_events
WHERE position > :after
  AND (:owner IS NULL OR owner = :owner)
ORDER BY position
LIMIT :limit
