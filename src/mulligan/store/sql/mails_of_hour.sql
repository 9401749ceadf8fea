SELECT recipient, count(*) AS number
FROM mulligan_deliveries
WHERE channel = 'email' AND state IN ('pending', 'delivered', 'failed')
    AND recipient = ANY (ARRAY(SELECT json_array_elements_text(:recipients::json)))
    AND created_at > {{clock}} - 3600000000
GROUP BY recipient
