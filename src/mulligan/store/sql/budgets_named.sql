SELECT gate, per_day, per_month, cost, over
FROM mulligan_limits
WHERE over IS NOT NULL AND gate IN (SELECT json_array_elements_text(:gates::json))
