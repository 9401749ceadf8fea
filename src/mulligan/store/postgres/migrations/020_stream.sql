-- Code of earlier schemas goes on working with this: it only deletes events without noting it, and may log a request to cancel after
-- the end of its job.

-- The highest position of any deleted event: a reader below it has missed something. What was deleted before is not known, so
-- that everything counts as seen too late if anything is missing.
ALTER TABLE mulligan_log ADD COLUMN pruned bigint NOT NULL DEFAULT 0;

UPDATE mulligan_log
SET pruned = base + coalesce((SELECT xid::text::bigint FROM mulligan_events ORDER BY xid DESC LIMIT 1), 0)
WHERE (SELECT count(*) FROM mulligan_events) < coalesce(pg_sequence_last_value(pg_get_serial_sequence('mulligan_events', 'seq')), 0);

-- The transaction that asked a running job to stop. The settle, which may be an older transaction, logs the job's end after it.
ALTER TABLE mulligan_jobs ADD COLUMN cancel_xid xid8;
