SELECT gate, most
FROM mulligan_limits
WHERE most IS NOT NULL AND gate IN (SELECT json_array_elements_text(:gates::json))
