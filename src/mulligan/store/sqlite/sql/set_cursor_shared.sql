-- Whoever writes here is alone.
SELECT 1
