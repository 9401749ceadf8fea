-- How attempts ended after the retries with these request ids. Of other manual moves only a cancel counts as an end.
SELECT later.job, later.type, later.code
FROM mulligan_events AS asked
JOIN mulligan_events AS later ON later.job = asked.job AND later.seq > asked.seq
WHERE asked.request = ANY (ARRAY(SELECT json_array_elements_text(:requests::json))) AND later.type = ANY (ARRAY(SELECT json_array_elements_text(:types::json)))
  AND (later.request IS NULL OR later.type = :cancelled)
ORDER BY later.seq
