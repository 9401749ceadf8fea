-- One transaction at a time admits jobs under limits; others do not wait. In a separate statement: those that follow
-- see everything admitted before.
SELECT pg_try_advisory_xact_lock(7216104373) AS is_alone
