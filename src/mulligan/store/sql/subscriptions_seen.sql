UPDATE mulligan_subscriptions
SET seen_at = {{clock}}
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
