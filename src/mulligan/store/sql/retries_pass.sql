-- Whether a retry that is due may be promoted at once: the duty `retry` is not paused, and there are no limits or
-- budgets. Only `promote.sql` says what blocks which job.
NOT EXISTS (
        SELECT 1
        FROM mulligan_pauses
        WHERE what = 'duty' AND name = 'retry' AND (until IS NULL OR until > (SELECT now FROM clock))
    ) AND NOT EXISTS (SELECT 1 FROM mulligan_limits)
