-- No cursor is set meanwhile: the next statement sees the lowest one.
SELECT pg_advisory_xact_lock(7216104372)
