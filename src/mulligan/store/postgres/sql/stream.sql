-- The page is chosen first, then joined: only its own events are looked up.
SELECT event.xid::text::bigint + base AS position, {{event_columns}}
FROM (
    SELECT *
    FROM mulligan_events AS event
    WHERE event.xid > (SELECT greatest(:after::bigint - base, 0)::text::xid8 FROM mulligan_log)
      AND event.xid <= (SELECT greatest(:until::bigint - base, 0)::text::xid8 FROM mulligan_log)
      AND {conditions}
    ORDER BY event.xid, event.seq
    LIMIT :limit
) AS event
CROSS JOIN mulligan_log
{{event_job}}
ORDER BY event.xid, event.seq
