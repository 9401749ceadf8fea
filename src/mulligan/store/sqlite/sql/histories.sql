-- All events of these jobs, job by job, each in its order.
SELECT *
FROM mulligan_events
WHERE job IN (SELECT value FROM json_each(:jobs))
ORDER BY job, position
