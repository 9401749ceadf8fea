-- Whether a claim that got fewer than it wanted left ready jobs behind: others were claiming in the same moment.
{lanes}
SELECT EXISTS (
    SELECT 1
    FROM lane
    CROSS JOIN LATERAL (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'queued' AND queue = lane.queue AND kind = lane.kind AND service = lane.service
          AND (deadline IS NULL OR deadline > (SELECT now FROM clock))
        ORDER BY priority, rank, id
        LIMIT 1
    ) AS job
    -- What is granted of a service was taken, or is for the next time.
    WHERE lane.most IS NULL
)
