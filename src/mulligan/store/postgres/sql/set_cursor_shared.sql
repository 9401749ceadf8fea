-- Many set cursors at once, but nobody while events are pruned.
SELECT pg_advisory_xact_lock_shared(7216104372)
