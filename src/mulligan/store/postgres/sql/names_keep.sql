UPDATE mulligan_service_names
SET checked_at = coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(:names::json)::bigint))
