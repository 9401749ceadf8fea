-- Of which of these nothing is known.
SELECT wanted.value AS name
FROM json_each(:names) AS wanted
WHERE NOT EXISTS (SELECT 1 FROM mulligan_tallies AS tally WHERE tally.service = wanted.value)
  AND NOT EXISTS (SELECT 1 FROM mulligan_services AS known WHERE known.name = wanted.value)
