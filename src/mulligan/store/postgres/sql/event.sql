-- A request that was written before is not written again.
INSERT INTO mulligan_events (xid, request, type, job, kind, owner, attempt, at, actor, code, data)
SELECT
    {{event_position}},
    :request, :type, :job, :kind, :owner, :attempt, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), :actor, :code, :data
FROM (SELECT nullif(:job::text, '') AS id) AS moved
ON CONFLICT (request) WHERE request IS NOT NULL DO NOTHING
