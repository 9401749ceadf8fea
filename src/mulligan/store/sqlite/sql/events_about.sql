-- The newest events about one subject that is no job, by the index on (job, position) from its end. Looks at a bounded
-- number of events of all such subjects.
SELECT event.position, {{event_columns}}
FROM (
    SELECT *
    FROM mulligan_events
    WHERE job = ''
    ORDER BY position DESC
    LIMIT :scan
) AS event
LEFT JOIN mulligan_jobs AS job ON job.id = event.job
WHERE event.type IN (SELECT value FROM json_each(:types))
  AND EXISTS (SELECT 1 FROM json_each(:about) AS named WHERE instr(event.data, named.value) > 0)
  AND (:owner IS NULL OR event.owner = :owner)
ORDER BY event.position DESC
LIMIT :limit
