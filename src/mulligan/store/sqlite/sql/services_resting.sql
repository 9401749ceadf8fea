-- Services that hold their jobs and are not to be asked yet.
SELECT name
FROM mulligan_services
WHERE is_restricted AND name IN (SELECT value FROM json_each(:names))
  AND ask_at > :now AND ask_at - hold <= :now
