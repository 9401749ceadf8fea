-- One at a time lets jobs in through limits, and whoever comes meanwhile does not wait. In a statement of its own: those that follow
-- see all that was let in before.
SELECT pg_try_advisory_xact_lock(7216104373) AS is_alone
