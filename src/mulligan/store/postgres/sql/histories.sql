-- All events of these jobs, by job, each in order.
SELECT event.xid::text::bigint + base AS position, {{event_columns}}
FROM mulligan_events AS event
CROSS JOIN mulligan_log
{{event_job}}
WHERE event.job IN (SELECT json_array_elements_text(:jobs::json))
ORDER BY event.job, event.seq
