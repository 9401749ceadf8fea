INSERT INTO mulligan_audit (id, at, actor, action, target, key, owner, request_id, ip)
SELECT
    json_extract(value, '$.id'),
    :now,
    json_extract(value, '$.actor'),
    json_extract(value, '$.action'),
    json_extract(value, '$.target'),
    json_extract(value, '$.key'),
    json_extract(value, '$.owner'),
    json_extract(value, '$.request_id'),
    json_extract(value, '$.ip')
FROM json_each(:entries)
WHERE NOT :are_marked OR EXISTS (
    SELECT 1
    FROM mulligan_in_flight
    WHERE mark = json_extract(value, '$.request_id') AND holder = json_extract(value, '$.id')
)
ON CONFLICT DO NOTHING
