-- Restricted services that have ready jobs for a claim and may be asked now.
SELECT name
FROM mulligan_services
WHERE is_restricted AND name = ANY (ARRAY(SELECT json_array_elements_text(:names::json)))
  AND NOT (ask_at > :now AND ask_at - hold <= :now)
