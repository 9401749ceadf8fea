INSERT INTO mulligan_batches (id, name, owner, state, success_at, abort_above, on_settled, created_at, expires_at)
VALUES (:id, :name, :owner, :draft, :success_at, :abort_above, :on_settled, :now, :now + :expires_in)
ON CONFLICT DO NOTHING
