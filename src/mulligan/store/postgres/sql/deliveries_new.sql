-- A delivery that was stored before is the same one.
INSERT INTO mulligan_deliveries (
    id, subscription, owner, about_owner, channel, type, about, recipient, state, reason, items, sequence, job, event, body,
    created_at, updated_at
)
SELECT id, subscription, owner, about_owner, channel, type, about, recipient, state, reason, items, sequence, job, event, body,
    {{clock}}, {{clock}}
FROM json_to_recordset(:deliveries::json) AS delivery (
    id text, subscription text, owner text, about_owner text, channel text, type text, about text, recipient text, state text, reason text, items integer, sequence integer, job text, event text, body text
)
ON CONFLICT (id) DO NOTHING
