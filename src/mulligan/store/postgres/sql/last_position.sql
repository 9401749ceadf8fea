-- Like the stream itself: below the oldest transaction under way, and to be flushed before it is told.
SELECT coalesce((
    SELECT xid::text::bigint
    FROM mulligan_events
    WHERE xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY xid DESC, seq DESC
    LIMIT 1 OFFSET :back
) + base, 0) AS position, pg_current_wal_insert_lsn()::text AS insert_lsn
FROM mulligan_log
