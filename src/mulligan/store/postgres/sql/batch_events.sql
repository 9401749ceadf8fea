-- The same event for many jobs.
INSERT INTO mulligan_events (xid, type, job, kind, owner, attempt, at, actor, data)
SELECT
    {{event_position}},
    :event, id, kind, owner, attempt, now, :actor, :data
FROM json_to_recordset(:jobs::json) AS moved (id text, kind text, owner text, attempt integer, now bigint)
