-- Which of these services a claim may not simply take of.
SELECT name, epoch, standing
FROM mulligan_services
WHERE is_restricted AND name IN (SELECT json_array_elements_text(:names::json))
