INSERT INTO mulligan_workers (incarnation, host, pid, queues, kinds, concurrency, version, started_at, seen_at)
SELECT :incarnation, :host, :pid, :queues, :kinds, :concurrency, :version, now, now
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
ON CONFLICT (incarnation) DO UPDATE SET seen_at = excluded.seen_at
