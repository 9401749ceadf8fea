-- Ended dedupe periods release their key; a live job holds its key anyway.
UPDATE mulligan_jobs
SET dedupe_until = NULL
FROM json_each(:jobs) AS new
WHERE owner = json_extract(new.value, '$.owner')
  AND kind = json_extract(new.value, '$.kind')
  AND dedupe_key = json_extract(new.value, '$.dedupe_key')
  AND dedupe_until <= coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER))
  AND state NOT IN ('waiting', 'queued', 'running')
