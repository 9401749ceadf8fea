INSERT INTO mulligan_audit (id, at, actor, action, target, key, owner, request_id, ip)
SELECT id, {{clock}}, actor, action, target, key, owner, request_id, ip
FROM json_to_recordset(:entries::json)
    AS entry (id text, actor text, action text, target text, key text, owner text, request_id text, ip text)
WHERE NOT :are_marked::boolean OR EXISTS (
    SELECT 1
    FROM mulligan_in_flight AS known
    WHERE known.mark = entry.request_id AND known.holder = entry.id
)
ON CONFLICT DO NOTHING
