-- A repeated request id writes nothing; the caller returns the first redrive.
INSERT INTO mulligan_operations (
    id, request, owner, filter, rate, canary, abort_above, actor, reason, state, matched, matches, sample, retried,
    skipped, succeeded, failed_again, silent, because, began_at, ended_at, cursors, watched, recent, paced_at,
    held_by, held_until, version, verb, delay
) VALUES (
    :id, :request, :owner, :filter, :rate, :canary, :abort_above, :actor, :reason, :state, :matched, :matches,
    :sample, :retried, :skipped, :succeeded, :failed_again, :silent, :because, :began_at, :ended_at, :cursors,
    :watched, :recent, :paced_at, :held_by, :held_until, :version, :verb, :delay
)
ON CONFLICT DO NOTHING
RETURNING id
