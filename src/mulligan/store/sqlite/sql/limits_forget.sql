-- Limits that this process had and has no more, and those that nobody has said again for long.
DELETE FROM mulligan_limits
WHERE gate IN (SELECT value FROM json_each(:gone)) OR seen_at < :now - :kept
