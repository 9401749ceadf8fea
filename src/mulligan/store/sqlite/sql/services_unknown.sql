-- Those of these services without a stored state.
SELECT wanted.value AS name
FROM json_each(:names) AS wanted
WHERE NOT EXISTS (SELECT 1 FROM mulligan_tallies AS tally WHERE tally.service = wanted.value)
  AND NOT EXISTS (SELECT 1 FROM mulligan_services AS known WHERE known.name = wanted.value)
