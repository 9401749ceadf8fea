-- The same event for many jobs.
INSERT INTO mulligan_events (xid, type, job, kind, owner, attempt, at, code, data)
SELECT
    {{event_position}},
    :event, id, kind, owner, attempt, :now, :code::text, :data
FROM json_to_recordset(:jobs::json) AS moved (id text, kind text, owner text, attempt integer)
