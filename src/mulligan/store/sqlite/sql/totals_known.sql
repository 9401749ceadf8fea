SELECT known.*
FROM json_each(:keys) AS wanted
CROSS JOIN mulligan_totals AS known
    ON known.name = wanted.value ->> 'name' AND known.labels = wanted.value ->> 'labels'
