DELETE FROM mulligan_groups
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
