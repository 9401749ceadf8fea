-- One look for all duties of a worker: which have something to do, and which are paused. Mostly there is nothing.
SELECT EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE deadline IS NOT NULL AND deadline <= coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AND state IN ('waiting', 'queued')
    ) OR (
{{batch_needs}}
    ) AS expire,
    EXISTS (SELECT 1 FROM mulligan_operations WHERE state IN ('canary', 'running')) AS redrive,
    to_json(ARRAY(
        SELECT name
        FROM mulligan_pauses
        WHERE what = 'duty' AND (until IS NULL OR until > coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    ))::text AS paused
