-- Whether a claim that got fewer jobs than it wanted left ready ones, because other claims ran at the same time.
{lanes}
SELECT EXISTS (
    SELECT 1
    FROM lane
    CROSS JOIN LATERAL (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'queued' AND queue = lane.queue AND kind = lane.kind AND service = lane.service
          AND (deadline IS NULL OR deadline > (SELECT now FROM clock)) {owners}
        ORDER BY priority, rank, id
        LIMIT 1
    ) AS job
    -- The grant of a service was taken, or applies to the next claim.
    WHERE lane.most IS NULL
)
