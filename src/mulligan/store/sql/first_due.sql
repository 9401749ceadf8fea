(
        SELECT due_at
        FROM mulligan_jobs
        WHERE state = 'waiting' AND gate IS NULL
        ORDER BY due_at
        LIMIT 1
    )
