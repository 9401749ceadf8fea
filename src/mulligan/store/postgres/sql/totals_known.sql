SELECT known.*
FROM json_to_recordset(:keys::json) AS wanted (name text, labels text)
JOIN mulligan_totals AS known ON known.name = wanted.name AND known.labels = wanted.labels
