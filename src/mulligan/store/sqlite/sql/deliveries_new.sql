-- A delivery that was stored before is the same one.
INSERT INTO mulligan_deliveries (
    id, subscription, owner, about_owner, channel, type, about, recipient, state, reason, items, sequence, job, event, body,
    created_at, updated_at
)
SELECT
    json_extract(value, '$.id'),
    json_extract(value, '$.subscription'),
    json_extract(value, '$.owner'),
    json_extract(value, '$.about_owner'),
    json_extract(value, '$.channel'),
    json_extract(value, '$.type'),
    json_extract(value, '$.about'),
    json_extract(value, '$.recipient'),
    json_extract(value, '$.state'),
    json_extract(value, '$.reason'),
    json_extract(value, '$.items'),
    json_extract(value, '$.sequence'),
    json_extract(value, '$.job'),
    json_extract(value, '$.event'),
    json_extract(value, '$.body'),
    {{clock}}, {{clock}}
FROM json_each(:deliveries)
WHERE true
ON CONFLICT (id) DO NOTHING
