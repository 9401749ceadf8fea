-- A request that was written before is not written again.
INSERT INTO mulligan_events (request, type, job, kind, owner, attempt, at, actor, code, data)
VALUES (:request, :type, :job, :kind, :owner, :attempt, :now, :actor, :code, :data)
ON CONFLICT (request) WHERE request IS NOT NULL DO NOTHING
