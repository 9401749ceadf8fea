UPDATE mulligan_service_names
SET checked_at = {{clock}}
WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(:names::json)::bigint))
