SELECT id, tags
FROM mulligan_jobs
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
