DELETE FROM mulligan_service_names
WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(:names::json)::bigint))
