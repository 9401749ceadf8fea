-- The newest events about one subject that is no job, by the index on (job, seq) from its end. Looks at a bounded number
-- of events of all such subjects.
SELECT event.xid::text::bigint + base AS position, {{event_columns}}
FROM (
    SELECT *
    FROM mulligan_events
    WHERE job = ''
    ORDER BY seq DESC
    LIMIT :scan
) AS event
CROSS JOIN mulligan_log
{{event_job}}
WHERE event.type = ANY (ARRAY(SELECT json_array_elements_text(:types::json)))
  AND EXISTS (SELECT 1 FROM json_array_elements_text(:about::json) AS named (text) WHERE strpos(event.data, named.text) > 0)
  AND (:owner::text IS NULL OR event.owner = :owner)
ORDER BY event.seq DESC
LIMIT :limit
