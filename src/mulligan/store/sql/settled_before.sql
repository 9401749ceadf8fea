-- An older attempt: its settle is in the log.
SELECT data
FROM mulligan_events
WHERE job = :id AND attempt = :attempt AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::json)))
