SELECT known.*
FROM json_each(:keys) AS wanted
CROSS JOIN mulligan_groups AS known ON known.id = wanted.value ->> 'id' AND known.scope = wanted.value ->> 'scope'
