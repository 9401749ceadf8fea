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
    {{promotable_gates}}
