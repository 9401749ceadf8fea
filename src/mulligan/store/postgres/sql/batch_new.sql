INSERT INTO mulligan_batches (id, name, owner, state, success_at, abort_above, on_settled, created_at, expires_at)
SELECT :id, :name, :owner, :draft, :success_at, :abort_above, :on_settled, clock.now, clock.now + :expires_in
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
ON CONFLICT DO NOTHING
