-- A running job keeps its lease: its worker is notified and settles it. A settle that is under way logs the end of the
-- job after this request.
UPDATE mulligan_jobs
SET state = :target,
    waiting_for = NULL, gate = NULL,
    cancel_requested = (:target = 'running'),
    cancel_xid = CASE WHEN :target = 'running' THEN pg_current_xact_id() ELSE cancel_xid END,
    finished_at = CASE WHEN :target = 'running' THEN NULL ELSE clock.now END,
    updated_at = clock.now
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
WHERE id = :id AND state = :source
