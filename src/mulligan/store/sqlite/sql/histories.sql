-- All events of these jobs, by job, each in order.
SELECT event.position, {{event_columns}}
FROM mulligan_events AS event
LEFT JOIN mulligan_jobs AS job ON job.id = event.job
WHERE event.job IN (SELECT value FROM json_each(:jobs))
ORDER BY event.job, event.position
