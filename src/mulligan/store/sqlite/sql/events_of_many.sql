-- The same event for many jobs.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, code, data)
SELECT :event, json_extract(value, '$.id'), json_extract(value, '$.kind'), json_extract(value, '$.owner'), json_extract(value, '$.attempt'), :now, :code, :data
FROM json_each(:jobs)
