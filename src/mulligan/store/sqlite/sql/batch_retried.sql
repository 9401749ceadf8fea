-- All manual retries of these jobs.
SELECT job, data
FROM mulligan_events
WHERE job IN (SELECT value FROM json_each(:jobs)) AND type = :event
ORDER BY position
