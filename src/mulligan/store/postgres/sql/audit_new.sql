INSERT INTO mulligan_audit (id, at, actor, action, target, key, owner, request_id, ip)
SELECT id, {{clock}}, actor, action, target, key, owner, request_id, ip
FROM json_to_recordset(:entries::json)
    AS entry (id text, actor text, action text, target text, key text, owner text, request_id text, ip text)
ON CONFLICT DO NOTHING
