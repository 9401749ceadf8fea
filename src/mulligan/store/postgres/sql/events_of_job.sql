-- The row lock ordered them. A reader of one job sees committed events at once.
SELECT event.xid::text::bigint + base AS position, {{event_columns}}
FROM mulligan_events AS event
CROSS JOIN mulligan_log
{{event_job}}
WHERE event.job = :job AND event.xid::text::bigint + base > :after
  AND (:owner::text IS NULL OR event.owner = :owner)
ORDER BY event.seq
LIMIT :limit
