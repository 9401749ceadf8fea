-- Services that hold their jobs and must not be asked yet.
SELECT name
FROM mulligan_services
WHERE is_restricted AND name = ANY (ARRAY(SELECT json_array_elements_text(:names::json)))
  AND ask_at > :now AND ask_at - hold <= :now
