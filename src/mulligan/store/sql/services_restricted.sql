-- Those of these services that are restricted.
SELECT name, epoch, standing
FROM mulligan_services
WHERE is_restricted AND name IN (SELECT json_array_elements_text(:names::json))
