-- All events of these jobs, by job, each in order.
SELECT *
FROM mulligan_events
WHERE job IN (SELECT value FROM json_each(:jobs))
ORDER BY job, position
