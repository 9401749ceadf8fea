-- The highest position of any deleted event, and one that no committed event is above.
SELECT pruned, pg_snapshot_xmax(pg_current_snapshot())::text::bigint + base AS reached
FROM mulligan_log
