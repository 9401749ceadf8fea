-- The same event for many jobs.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, actor, data)
SELECT :event, json_extract(value, '$.id'), json_extract(value, '$.kind'), json_extract(value, '$.owner'),
    json_extract(value, '$.attempt'), :now, :actor, :data
FROM json_each(:jobs)
ORDER BY key
