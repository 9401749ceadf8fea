-- Those of these jobs that exist already, by id or by a rule of their dedupe key.
SELECT new.n
FROM (
    SELECT
        json_extract(value, '$.n') AS n,
        json_extract(value, '$.id') AS id,
        json_extract(value, '$.owner') AS owner,
        json_extract(value, '$.kind') AS kind,
        json_extract(value, '$.dedupe_key') AS dedupe_key,
        json_extract(value, '$.dedupe_scope') AS dedupe_scope,
        json_extract(value, '$.dedupe_for') AS dedupe_for
    FROM json_each(:jobs)
) AS new
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
          AND job.dedupe_until IS NOT NULL AND job.dedupe_until > coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER))
    )
