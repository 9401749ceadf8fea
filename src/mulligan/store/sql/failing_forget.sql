DELETE FROM mulligan_failing
WHERE error_group = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
