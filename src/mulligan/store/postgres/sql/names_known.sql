-- Those of these computed names that are stored.
SELECT wanted.name
FROM json_to_recordset(:names::json) AS wanted (family text, name text)
WHERE EXISTS (
    SELECT 1
    FROM mulligan_service_names AS known
    WHERE known.family = wanted.family AND known.name = wanted.name
)
