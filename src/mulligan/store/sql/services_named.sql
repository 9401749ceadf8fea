SELECT name, epoch, standing, is_restricted
FROM mulligan_services
WHERE name = ANY (ARRAY(SELECT json_array_elements_text(:names::json)))
ORDER BY name
