SELECT owner, period, retries, cost
FROM mulligan_spending
WHERE owner IN (SELECT json_array_elements_text(:owners::json)) AND period IN (SELECT json_array_elements_text(:periods::json))
