-- How attempts ended after the retries with these request ids. Of other manual moves only a cancel counts as an end.
SELECT later.job, later.type, later.code
FROM json_each(:requests) AS wanted
JOIN mulligan_events AS asked ON asked.request = wanted.value
JOIN mulligan_events AS later ON later.job = asked.job AND later.position > asked.position
WHERE later.type IN (SELECT value FROM json_each(:types))
  AND (later.request IS NULL OR later.type = :cancelled)
ORDER BY later.position
