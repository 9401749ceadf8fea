-- Limits that this process had and no longer has, and those that no process has announced for long.
DELETE FROM mulligan_limits
WHERE gate IN (SELECT json_array_elements_text(:gone::json)) OR seen_at < :now - :kept
