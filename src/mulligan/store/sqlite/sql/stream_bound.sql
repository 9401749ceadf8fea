-- Where a scan of this many events ends.
SELECT event.position
FROM mulligan_events AS event
WHERE event.position > :after AND event.position <= :until
ORDER BY event.position
LIMIT 1 OFFSET :scan
