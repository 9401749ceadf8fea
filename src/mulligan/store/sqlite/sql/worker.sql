INSERT INTO mulligan_workers (incarnation, host, pid, queues, kinds, concurrency, version, started_at, seen_at)
VALUES (:incarnation, :host, :pid, :queues, :kinds, :concurrency, :version, :now, :now)
ON CONFLICT (incarnation) DO UPDATE SET seen_at = :now
