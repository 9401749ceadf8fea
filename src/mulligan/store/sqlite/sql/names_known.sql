-- Those of these computed names that are stored.
SELECT value ->> 'name' AS name
FROM json_each(:names) AS wanted
WHERE EXISTS (
    SELECT 1
    FROM mulligan_service_names AS known
    WHERE known.family = wanted.value ->> 'family' AND known.name = wanted.value ->> 'name'
)
