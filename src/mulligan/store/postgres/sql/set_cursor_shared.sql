-- Cursors may be set concurrently, but not while events are deleted.
SELECT pg_advisory_xact_lock_shared(7216104372)
