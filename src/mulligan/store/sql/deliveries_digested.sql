UPDATE mulligan_deliveries
SET digest = :digest, updated_at = {{clock}}
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json))) AND digest IS NULL
