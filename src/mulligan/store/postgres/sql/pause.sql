INSERT INTO mulligan_pauses (what, name, since, until, actor, reason)
SELECT :what, :name, clock.now, clock.now + :duration, :actor, :reason
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
ON CONFLICT (what, name) DO UPDATE
SET since = excluded.since, until = excluded.until, actor = excluded.actor, reason = excluded.reason
RETURNING *
