-- When a job runs out of time, or the date of a settled batch passes.
SELECT min(moment) AS ends
FROM (
    SELECT min(deadline) AS moment
    FROM mulligan_jobs
    WHERE deadline IS NOT NULL AND state IN ('waiting', 'queued')
    UNION ALL
    SELECT min(expires_at)
    FROM mulligan_batches
    WHERE expires_at IS NOT NULL AND state IN ('ready', 'partial', 'failed')
) AS moments
