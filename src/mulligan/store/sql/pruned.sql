-- The highest position of any deleted event.
SELECT coalesce(max(pruned), 0) AS pruned
FROM mulligan_log
