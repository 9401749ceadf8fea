SELECT job, error_group, owner, code, since, last_at, is_failed
FROM mulligan_failing
WHERE job = ANY (ARRAY(SELECT json_array_elements_text(:jobs::json)))
