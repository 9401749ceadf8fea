-- Nobody sets a cursor meanwhile: a statement that follows sees the lowest there is.
SELECT pg_advisory_xact_lock(7216104372)
