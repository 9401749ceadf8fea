-- A running job keeps its lease: its worker is notified and settles it.
UPDATE mulligan_jobs
SET state = :target,
    waiting_for = NULL, gate = NULL,
    cancel_requested = (:target = 'running'),
    finished_at = CASE WHEN :target = 'running' THEN NULL ELSE clock.now END,
    updated_at = clock.now
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
WHERE id = :id AND state = :source
