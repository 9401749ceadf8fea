-- Ended dedupe periods release their key. A live job holds its key anyway. Its row is not locked: the lock would last
-- as long as a caller's transaction, and its worker could neither beat nor settle.
UPDATE mulligan_jobs AS job
SET dedupe_until = NULL
FROM jsonb_to_recordset(:jobs::jsonb) AS new (owner text, kind text, dedupe_key text)
WHERE job.owner = new.owner AND job.kind = new.kind AND job.dedupe_key = new.dedupe_key
  AND job.dedupe_until <= coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
  AND job.state NOT IN ('waiting', 'queued', 'running')
