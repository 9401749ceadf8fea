-- The runs of one worker, or a manual run.
INSERT INTO mulligan_duties (duty, worker, at, took, did, interval, batch, actor, reason)
SELECT value ->> 'duty', value ->> 'worker', :now - (value ->> 'ago'), value ->> 'took', value ->> 'did',
    value ->> 'interval', value ->> 'batch', value ->> 'actor', value ->> 'reason'
FROM json_each(:rounds)
WHERE true
ON CONFLICT (duty, worker) DO UPDATE
SET at = excluded.at, took = excluded.took, did = excluded.did, interval = excluded.interval, batch = excluded.batch,
    actor = excluded.actor, reason = excluded.reason
