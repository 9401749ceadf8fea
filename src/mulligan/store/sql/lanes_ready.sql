-- The lanes of these services that hold ready jobs.
{{ready_lanes}}
SELECT service, queue, kind
FROM lane
WHERE service = ANY (ARRAY(SELECT json_array_elements_text(:services::json)))
