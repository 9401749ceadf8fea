-- Ready jobs, those that wait for a new round of probes, and blocked retries, by service: a loose index scan of lanes
-- and gates that counts up to a limit in each.
{{ready_lanes}}, {{budget_gates}}, probed (gate) AS (
    SELECT (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'probe/' AND gate < 'probe0'
        ORDER BY gate
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > probed.gate AND gate < 'probe0'
        ORDER BY gate
        LIMIT 1
    )
    FROM probed
    WHERE probed.gate IS NOT NULL
), demand (service, ready, parked) AS (
    SELECT lane.service, (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM mulligan_jobs
            WHERE state = 'queued' AND queue = lane.queue AND kind = lane.kind AND service = lane.service
            LIMIT :limit
        ) AS counted
    ), 0
    FROM lane
    WHERE lane.service <> ''
    UNION ALL
    SELECT substr(parked.gate, 8), 0, (
        SELECT count(*)
        FROM (SELECT 1 FROM mulligan_jobs WHERE state = 'waiting' AND gate = parked.gate LIMIT :limit) AS counted
    )
    FROM parked
    WHERE parked.gate IS NOT NULL
    UNION ALL
    -- Failed as a probe, and blocked like the others.
    SELECT (SELECT service FROM mulligan_jobs WHERE state = 'waiting' AND gate = probed.gate LIMIT 1), (
        SELECT count(*)
        FROM (SELECT 1 FROM mulligan_jobs WHERE state = 'waiting' AND gate = probed.gate LIMIT :limit) AS counted
    ), 0
    FROM probed
    WHERE probed.gate IS NOT NULL
)
SELECT service, sum(ready)::bigint AS ready, sum(parked)::bigint AS parked
FROM demand
GROUP BY service
ORDER BY service
