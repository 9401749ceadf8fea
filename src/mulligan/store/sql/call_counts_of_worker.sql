SELECT service, tally
FROM mulligan_tallies
WHERE worker = :worker AND service = ANY (ARRAY(SELECT json_array_elements_text(:services::json)))
