UPDATE mulligan_submissions
SET counted_until = :until
WHERE owner = ANY (ARRAY(SELECT json_array_elements_text(:owners::json)))
