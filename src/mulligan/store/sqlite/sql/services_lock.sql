-- Whoever writes here is alone.
SELECT value
FROM json_each(:names)
