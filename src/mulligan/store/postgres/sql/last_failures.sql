-- The last failure of each of these jobs, by the index on (job, seq) from its end.
SELECT xid::text::bigint + base AS position, type, job, kind, owner, attempt, at, actor, code, data
FROM json_array_elements_text(:jobs::json) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT *
    FROM mulligan_events
    WHERE job = wanted.id AND code IS NOT NULL AND code <> 'SNOOZED' AND type <> 'job.refused'
    ORDER BY seq DESC
    LIMIT 1
) AS event
CROSS JOIN mulligan_log
WHERE :owner::text IS NULL OR event.owner = :owner
