parked (gate) AS (
    SELECT (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'budget/' AND gate < 'budget0'
        ORDER BY gate
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > parked.gate AND gate < 'budget0'
        ORDER BY gate
        LIMIT 1
    )
    FROM parked
    WHERE parked.gate IS NOT NULL
)
