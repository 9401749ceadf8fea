DELETE FROM mulligan_breakers
WHERE service = ANY (ARRAY(SELECT json_array_elements_text(:services::json)))
