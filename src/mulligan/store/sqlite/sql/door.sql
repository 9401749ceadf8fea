-- Whether anybody stands at the door, or is parked beside it; whether a service is to be asked, whether retries wait for a
-- budget, whether jobs wait for their service, whether jobs wait for a place, and whether a limit does not count yet who came before it: most claims find nobody, and need not look further.
SELECT EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'waiting' AND gate IS NULL AND due_at <= :now)
    OR EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'waiting' AND gate IS NOT NULL AND gate >= 'duty/' AND gate < 'duty0')
    OR EXISTS (SELECT 1 FROM mulligan_batches WHERE admits = 1) AS is_anyone,
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
