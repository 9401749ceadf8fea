INSERT INTO mulligan_duties (duty, worker, at, took, did, interval, batch, actor, reason)
VALUES (:duty, :worker, :now, :took, :did, :interval, :batch, :actor, :reason)
ON CONFLICT (duty, worker) DO UPDATE
SET at = excluded.at, took = excluded.took, did = excluded.did, interval = excluded.interval, batch = excluded.batch,
    actor = excluded.actor, reason = excluded.reason
