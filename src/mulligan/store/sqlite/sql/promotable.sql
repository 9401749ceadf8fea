-- Whether jobs are due or unblocked, whether a service is restricted, whether retries wait for the budget of a service,
-- jobs for their service, or jobs for a limit or the budget of an owner, and whether a new limit has not counted the
-- jobs admitted earlier. Most claims find nothing and need not search further.
SELECT EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'waiting' AND gate IS NULL AND due_at <= :now)
    OR EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'waiting' AND gate IS NOT NULL AND gate >= 'duty/' AND gate < 'duty0')
    OR EXISTS (SELECT 1 FROM mulligan_batches WHERE admits = 1) AS has_due,
    {{promotable_gates}}
