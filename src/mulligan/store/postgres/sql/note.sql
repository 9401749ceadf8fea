INSERT INTO mulligan_duties (duty, worker, at, took, did, interval, batch, actor, reason)
SELECT :duty, :worker, clock.now, :took, :did, :interval, :batch, :actor, :reason
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
ON CONFLICT (duty, worker) DO UPDATE
SET at = excluded.at, took = excluded.took, did = excluded.did, interval = excluded.interval, batch = excluded.batch,
    actor = excluded.actor, reason = excluded.reason
