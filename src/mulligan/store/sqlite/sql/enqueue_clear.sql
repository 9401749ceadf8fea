-- Ended dedupe periods release their key; a live job holds its key anyway.
UPDATE mulligan_jobs
SET dedupe_until = NULL
WHERE owner = :owner AND kind = :kind AND dedupe_key = :dedupe_key AND dedupe_until <= :now
  AND state NOT IN ('waiting', 'queued', 'running')
