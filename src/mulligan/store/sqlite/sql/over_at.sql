-- When an ended job may be deleted, as in the index `mulligan_jobs_over`: never, while it keeps its dedupe key for good.
CASE WHEN state = 'succeeded' AND dedupe_scope = 'succeeded' AND dedupe_key IS NOT NULL THEN 9223372036854775807
    ELSE max(finished_at, coalesce(dedupe_until, 0)) END
