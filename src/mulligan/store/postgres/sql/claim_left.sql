-- Whether a claim that got fewer jobs than it wanted left ready ones, because other claims ran at the same time.
{lanes}
SELECT EXISTS (
    SELECT 1
    FROM open_lane
    CROSS JOIN LATERAL (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'queued' AND queue = open_lane.queue AND kind = open_lane.kind AND service = open_lane.service
          AND (deadline IS NULL OR deadline > (SELECT now FROM clock)) {owners}
        ORDER BY priority, rank, id
        LIMIT 1
    ) AS job
    -- The grant of a service was taken, or applies to the next claim.
    WHERE open_lane.most IS NULL
)
