-- What there is to promote, without doing it: mostly nothing, and `promote.sql` costs as much as claiming fifty jobs.
-- Whether jobs are due or unblocked, whether a service is restricted, whether retries wait for the budget of a service,
-- jobs for their service, or jobs for a limit or the budget of an owner, and whether a new limit has not counted the
-- jobs admitted earlier.
WITH clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
)
SELECT EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NULL AND due_at <= (SELECT now FROM clock)
    ) OR EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IN ('duty/retry', 'duty/promote')
    ) OR EXISTS (SELECT 1 FROM mulligan_batches WHERE admits) AS has_due,
    EXISTS (SELECT 1 FROM mulligan_services WHERE is_restricted) AS has_restricted,
    EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'budget/' AND gate < 'budget0'
    ) AS has_budget,
    EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'probe/' AND gate < 'probe0'
    ) AS has_probes,
    EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'limit/' AND gate < 'limit0'
    ) OR EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'owner-budget/' AND gate < 'owner-budget0'
    ) AS has_limit,
    EXISTS (SELECT 1 FROM mulligan_limits WHERE NOT is_swept AND most IS NOT NULL) AS is_new_limit
