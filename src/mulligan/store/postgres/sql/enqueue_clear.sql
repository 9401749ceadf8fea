-- Periods that are over hold their key no longer.
UPDATE mulligan_jobs AS job
SET dedupe_until = NULL
FROM jsonb_to_recordset(:jobs::jsonb) AS new (owner text, kind text, dedupe_key text)
WHERE job.owner = new.owner AND job.kind = new.kind AND job.dedupe_key = new.dedupe_key
  AND job.dedupe_until <= coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
