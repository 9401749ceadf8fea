coalesce({{first_due}} <= {{clock}}, false) OR (
        SELECT gate
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'duty/' AND gate < 'duty0'
        ORDER BY gate
        LIMIT 1
    ) IS NOT NULL OR EXISTS (SELECT 1 FROM mulligan_batches WHERE {{admits}}) AS has_due,
    {{promotable_gates}}
