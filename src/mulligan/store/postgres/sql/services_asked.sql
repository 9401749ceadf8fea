-- Services of which a claim may not simply take, that have ready jobs for it and may be asked now. Locked first, counted then: in
-- one statement the count would be older than the lock, and two claims would take one permit.
SELECT name, epoch, standing
FROM mulligan_services
WHERE is_restricted AND name IN (SELECT json_array_elements_text(:names::json))
  AND NOT (ask_at > :now AND ask_at - hold <= :now)
ORDER BY name
FOR UPDATE
