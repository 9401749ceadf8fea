-- The last failure of each of these jobs, by the index on (job, seq) from its end.
SELECT event.xid::text::bigint + base AS position, {{event_columns}}
FROM json_array_elements_text(:jobs::json) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT *
    FROM mulligan_events
    WHERE job = wanted.id AND code IS NOT NULL AND code <> 'SNOOZED' AND type <> 'job.refused'
    ORDER BY seq DESC
    LIMIT 1
) AS event
CROSS JOIN mulligan_log
{{event_job}}
WHERE :owner::text IS NULL OR event.owner = :owner
