SELECT id, state
FROM mulligan_jobs
WHERE id IN (SELECT value FROM json_array_elements_text(:ids::json))
