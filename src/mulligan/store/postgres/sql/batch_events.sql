-- The same event about many jobs.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, actor, data)
SELECT :event, id, kind, owner, attempt, now, :actor, :data
FROM json_to_recordset(:jobs::json) AS job (id text, kind text, owner text, attempt integer, now bigint)
