EXISTS (SELECT 1 FROM mulligan_services WHERE is_restricted) AS has_restricted,
    (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'budget/' AND gate < 'budget0'
        ORDER BY gate
        LIMIT 1
    ) IS NOT NULL AS has_budget,
    (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'probe/' AND gate < 'probe0'
        ORDER BY gate
        LIMIT 1
    ) IS NOT NULL AS has_probes,
    (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'limit/' AND gate < 'limit0'
        ORDER BY gate
        LIMIT 1
    ) IS NOT NULL OR (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'owner-budget/' AND gate < 'owner-budget0'
        ORDER BY gate
        LIMIT 1
    ) IS NOT NULL AS has_limit,
    EXISTS (SELECT 1 FROM mulligan_limits WHERE NOT is_swept AND most IS NOT NULL) AS is_new_limit
