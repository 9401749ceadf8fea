-- Whoever writes here is alone.
SELECT :worker
