-- Locked: a digest that is being closed would not see an event that is written now, and no other digest would be due.
SELECT *
FROM mulligan_digests
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
ORDER BY id
FOR UPDATE
