SELECT subscription, about, max(sequence) AS last
FROM mulligan_deliveries
WHERE subscription = ANY (ARRAY(SELECT json_array_elements_text(:subscriptions::json)))
    AND about = ANY (ARRAY(SELECT json_array_elements_text(:subjects::json)))
    AND sequence IS NOT NULL
GROUP BY subscription, about
