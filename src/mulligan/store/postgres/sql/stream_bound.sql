-- Where a scan of this many events ends. The rest of its last transaction belongs to it.
SELECT event.xid::text::bigint + (SELECT base FROM mulligan_log) AS position
FROM mulligan_events AS event
WHERE event.xid > (SELECT greatest(:after::bigint - base, 0)::text::xid8 FROM mulligan_log)
  AND event.xid <= (SELECT greatest(:until::bigint - base, 0)::text::xid8 FROM mulligan_log)
ORDER BY event.xid, event.seq
LIMIT 1 OFFSET :scan
