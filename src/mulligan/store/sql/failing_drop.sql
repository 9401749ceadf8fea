DELETE FROM mulligan_failing
WHERE job = ANY (ARRAY(SELECT json_array_elements_text(:jobs::json)))
