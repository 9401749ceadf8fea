-- New names, as long as they fit into their family: `place` is the number among the new ones.
INSERT INTO mulligan_service_names (family, name, most, checked_at)
WITH wanted AS (
    SELECT value ->> 'family' AS family, value ->> 'name' AS name, value ->> 'place' AS place, value ->> 'most' AS most
    FROM json_each(:names)
), taken AS MATERIALIZED (
    SELECT family, (SELECT count(DISTINCT name) FROM mulligan_service_names AS known WHERE known.family = each.family) AS number
    FROM (SELECT DISTINCT family FROM wanted) AS each
)
SELECT wanted.family, wanted.name, wanted.most, coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER))
FROM wanted
JOIN taken ON taken.family = wanted.family
WHERE taken.number + wanted.place <= wanted.most
RETURNING name
