coalesce((
        SELECT deadline
        FROM mulligan_jobs
        WHERE deadline IS NOT NULL AND state IN ('waiting', 'queued')
        ORDER BY deadline
        LIMIT 1
    ) <= {{clock}}, false) OR (
{{batch_needs}}
    ) AS expire,
    EXISTS (SELECT 1 FROM mulligan_operations WHERE state IN ('canary', 'running')) AS redrive,
    -- Or a worker has to confirm again that its code has a schedule.
    EXISTS (SELECT 1 FROM mulligan_schedules WHERE next_tick <= :now OR seen_at < :now - :seen_every) AS has_ticks,
    (
        SELECT json_group_array(name)
        FROM mulligan_pauses
        WHERE what = 'duty' AND (until IS NULL OR until > :now)
    ) AS paused
