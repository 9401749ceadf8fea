-- The page is chosen first, then joined: only its own events are looked up.
SELECT event.position, {{event_columns}}
FROM (
    SELECT *
    FROM mulligan_events AS event
    WHERE event.position > :after AND event.position <= :until AND {conditions}
    ORDER BY event.position
    LIMIT :limit
) AS event
LEFT JOIN mulligan_jobs AS job ON job.id = event.job
ORDER BY event.position
