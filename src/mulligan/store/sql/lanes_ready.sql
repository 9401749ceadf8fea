-- The lanes of these services with ready jobs.
{{ready_lanes}}
SELECT service, queue, kind
FROM lane
WHERE service = ANY (ARRAY(SELECT json_array_elements_text(:services::json)))
