-- How these jobs were started again by hand, each time.
SELECT job, data
FROM mulligan_events
WHERE job IN (SELECT value FROM json_each(:jobs)) AND type = :event
ORDER BY position
