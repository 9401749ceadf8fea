SELECT known.*
FROM json_to_recordset(:keys::json) AS wanted (id text, scope text)
JOIN mulligan_groups AS known ON known.id = wanted.id AND known.scope = wanted.scope
