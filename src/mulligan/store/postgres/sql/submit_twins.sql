-- Those of these jobs that exist already, by id or by a rule of their dedupe key.
SELECT new.n
FROM jsonb_to_recordset(:jobs::jsonb)
    AS new (n integer, id text, owner text, kind text, dedupe_key text, dedupe_scope text, dedupe_for bigint)
WHERE EXISTS (SELECT 1 FROM mulligan_jobs AS job WHERE job.id = new.id)
   OR EXISTS (
        SELECT 1
        FROM mulligan_jobs AS job
        WHERE job.owner = new.owner AND job.kind = new.kind AND job.dedupe_key = new.dedupe_key
          AND job.state IN ('waiting', 'queued', 'running')
    )
   OR new.dedupe_scope = 'succeeded' AND EXISTS (
        SELECT 1
        FROM mulligan_jobs AS job
        WHERE job.owner = new.owner AND job.kind = new.kind AND job.dedupe_key = new.dedupe_key
          AND job.dedupe_scope = 'succeeded' AND job.state IN ('waiting', 'queued', 'running', 'succeeded')
    )
   OR new.dedupe_for IS NOT NULL AND EXISTS (
        SELECT 1
        FROM mulligan_jobs AS job
        WHERE job.owner = new.owner AND job.kind = new.kind AND job.dedupe_key = new.dedupe_key
          AND job.dedupe_until IS NOT NULL AND job.dedupe_until > (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    )
