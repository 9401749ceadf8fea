SELECT *
FROM mulligan_incidents
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
