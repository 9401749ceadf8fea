SELECT *
FROM mulligan_events
WHERE job = :job AND position > :after
  AND (:owner IS NULL OR owner = :owner)
ORDER BY position
LIMIT :limit
