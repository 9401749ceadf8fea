INSERT INTO mulligan_pauses (what, name, since, until, actor, reason)
VALUES (:what, :name, :now, :now + :duration, :actor, :reason)
ON CONFLICT (what, name) DO UPDATE
SET since = excluded.since, until = excluded.until, actor = excluded.actor, reason = excluded.reason
RETURNING *
