-- New names, as long as they fit into their family: `place` is the number among the new ones. Names inserted at the
-- same time are not seen.
INSERT INTO mulligan_service_names (family, name, most, checked_at)
SELECT wanted.family, wanted.name, wanted.most, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM json_to_recordset(:names::json) AS wanted (family text, name text, place integer, most integer)
JOIN (
    SELECT family, (SELECT count(DISTINCT name) FROM mulligan_service_names AS known WHERE known.family = each.family) AS number
    FROM (SELECT DISTINCT family FROM json_to_recordset(:names::json) AS one (family text)) AS each
) AS taken ON taken.family = wanted.family
WHERE taken.number + wanted.place <= wanted.most
RETURNING name
