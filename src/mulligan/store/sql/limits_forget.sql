-- Limits that this process had and has no more, and those that nobody has said again for long.
DELETE FROM mulligan_limits
WHERE gate IN (SELECT json_array_elements_text(:gone::json)) OR seen_at < :now - :kept
