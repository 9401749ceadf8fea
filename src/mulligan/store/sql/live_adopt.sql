UPDATE mulligan_jobs
SET is_counted = true
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
