SELECT name, count(*) AS number
FROM mulligan_totals
WHERE name = ANY (ARRAY(SELECT json_array_elements_text(:names::json)))
GROUP BY name
