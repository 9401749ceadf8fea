UPDATE mulligan_keys
SET last_used_at = :minute
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json))) AND (last_used_at IS NULL OR last_used_at < :minute)
