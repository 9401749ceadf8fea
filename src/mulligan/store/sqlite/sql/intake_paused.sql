-- The pauses that refuse jobs of these kinds and queues.
SELECT *, coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)) AS now
FROM mulligan_pauses
WHERE what = 'intake' AND name IN (SELECT value FROM json_each(:intake))
  AND (until IS NULL OR until > coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)))
ORDER BY name
