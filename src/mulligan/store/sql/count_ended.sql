-- Count ended jobs. The conditions are constants chosen by the filter.
SELECT kind, state, error_code, is_held, count(*) AS number
FROM (
    SELECT kind, state, error_code,
        (state = 'succeeded' AND dedupe_scope = 'succeeded' AND dedupe_key IS NOT NULL)
            OR coalesce(dedupe_until, 0) > {{clock}}
            OR coalesce(batch IN (SELECT id FROM mulligan_batches WHERE mulligan_batches.state IN ('draft', 'processing')), false) AS is_held
    FROM mulligan_jobs
    WHERE {conditions}
      AND state IN ('succeeded', 'failed', 'cancelled') AND finished_at <= :before
) AS over
GROUP BY kind, state, error_code, is_held
ORDER BY kind, state, error_code, is_held
