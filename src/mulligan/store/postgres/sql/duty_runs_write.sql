-- The runs of one worker, or a manual run.
INSERT INTO mulligan_duties (duty, worker, at, took, did, interval, batch, actor, reason)
SELECT done.duty, done.worker, clock.now - done.ago, done.took, done.did, done.interval, done.batch, done.actor, done.reason
FROM jsonb_to_recordset(:rounds::jsonb) AS done (
        duty text, worker text, ago bigint, took bigint, did bigint, interval bigint, batch bigint, actor text, reason text
    ),
    (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
ON CONFLICT (duty, worker) DO UPDATE
SET at = excluded.at, took = excluded.took, did = excluded.did, interval = excluded.interval, batch = excluded.batch,
    actor = excluded.actor, reason = excluded.reason
