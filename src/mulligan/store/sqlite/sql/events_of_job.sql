SELECT event.position, {{event_columns}}
FROM mulligan_events AS event
LEFT JOIN mulligan_jobs AS job ON job.id = event.job
WHERE event.job = :job AND event.position > :after
  AND (:owner IS NULL OR event.owner = :owner)
ORDER BY event.position
LIMIT :limit
