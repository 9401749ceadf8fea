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
WHERE true
ON CONFLICT DO NOTHING
