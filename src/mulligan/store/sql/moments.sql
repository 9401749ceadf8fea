(
        SELECT min(moment)
        FROM (
            SELECT min(due_at) AS moment
            FROM mulligan_jobs
            WHERE state = 'waiting' AND gate IS NULL AND due_at > {{clock}}
            UNION ALL
            SELECT min(deadline)
            FROM mulligan_jobs
            WHERE deadline IS NOT NULL AND state IN ('waiting', 'queued') AND deadline > {{clock}}
            UNION ALL
            SELECT min(expires_at)
            FROM mulligan_batches
            WHERE expires_at IS NOT NULL AND state IN ('ready', 'partial', 'failed') AND expires_at > {{clock}}
            UNION ALL
            SELECT min(until)
            FROM mulligan_pauses
            WHERE until > {{clock}}
        ) AS moments
    ) AS moment,
    (
        SELECT min(next_tick)
        FROM mulligan_schedules AS schedule
        WHERE next_tick > {{clock}} AND NOT EXISTS (
            SELECT 1
            FROM mulligan_pauses
            WHERE (what, name) IN (VALUES ('schedule', schedule.name), ('duty', 'schedule'))
              AND (until IS NULL OR until > {{clock}})
        )
    ) AS tick
