-- The highest position of any deleted event, and the highest that any event has had.
SELECT pruned, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'mulligan_events'), 0) AS reached
FROM mulligan_log
