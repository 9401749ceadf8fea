-- What there is to do at the door, without doing it: most of the time nothing, and `promote.sql` costs as much as
-- claiming fifty jobs. Whether anybody may pass or is to be parked, whether a service has to be asked before its jobs are
-- claimed, whether retries wait for a service's budget, jobs for their service, or jobs for a limit or an owner's budget, and whether a
-- limit does not count yet who came before it.
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
    ) OR EXISTS (SELECT 1 FROM mulligan_batches WHERE admits) AS is_anyone,
    EXISTS (SELECT 1 FROM mulligan_services WHERE is_restricted) AS asks,
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
