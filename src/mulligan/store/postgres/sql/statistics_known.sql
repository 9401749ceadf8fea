-- All rows of these minutes, hours and days. Each has a limited number of them.
SELECT known.*
FROM json_to_recordset(:spans::json) AS wanted (span bigint, at bigint)
JOIN mulligan_statistics AS known ON known.span = wanted.span AND known.at = wanted.at
