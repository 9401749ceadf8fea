-- Those of these services without a stored state.
SELECT wanted.name
FROM json_array_elements_text(:names::json) AS wanted (name)
WHERE NOT EXISTS (SELECT 1 FROM mulligan_tallies AS tally WHERE tally.service = wanted.name)
  AND NOT EXISTS (SELECT 1 FROM mulligan_services AS known WHERE known.name = wanted.name)
