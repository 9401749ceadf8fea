-- The last failure of each of these jobs, by the index on (job, position) from its end.
SELECT event.position, {{event_columns}}
FROM json_each(:jobs) AS wanted
JOIN mulligan_events AS event ON event.position = (
    SELECT position
    FROM mulligan_events
    WHERE job = wanted.value AND code IS NOT NULL AND code <> 'SNOOZED' AND type <> 'job.refused'
    ORDER BY position DESC
    LIMIT 1
)
LEFT JOIN mulligan_jobs AS job ON job.id = event.job
WHERE :owner IS NULL OR event.owner = :owner
