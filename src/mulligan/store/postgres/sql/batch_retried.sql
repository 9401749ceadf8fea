-- All manual retries of these jobs.
SELECT job, data
FROM mulligan_events
WHERE job = ANY (ARRAY(SELECT json_array_elements_text(:jobs::json))) AND type = :event
ORDER BY seq
