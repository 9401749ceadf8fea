-- The gates under which jobs wait, a bounded number between two, by a loose index scan.
WITH RECURSIVE parked (gate, place) AS (
    SELECT (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > :after AND gate < :until
        ORDER BY gate
        LIMIT 1
    ), 1
    UNION ALL
    SELECT (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > parked.gate AND gate < :until
        ORDER BY gate
        LIMIT 1
    ), place + 1
    FROM parked
    WHERE parked.gate IS NOT NULL AND place < :limit
)
SELECT gate
FROM parked
WHERE gate IS NOT NULL
