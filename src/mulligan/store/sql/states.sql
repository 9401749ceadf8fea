SELECT id, state
FROM mulligan_jobs
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
