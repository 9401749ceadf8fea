-- All rows of these minutes, hours and days. Each has a limited number of them.
SELECT known.*
FROM json_each(:spans) AS wanted
CROSS JOIN mulligan_statistics AS known
    ON known.span = wanted.value ->> 'span' AND known.at = wanted.value ->> 'at'
