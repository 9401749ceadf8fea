-- Like the stream: below the oldest open transaction, and flushed before it is returned. Events of one transaction
-- share a position, so the result is before the transaction of the oldest event counted back.
SELECT coalesce((
    SELECT xid::text::bigint
    FROM mulligan_events
    WHERE xid < CASE WHEN :back::bigint = 0 THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE (
        SELECT xid
        FROM mulligan_events
        WHERE xid < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY xid DESC, seq DESC
        LIMIT 1 OFFSET greatest(:back::bigint - 1, 0)
    ) END
    ORDER BY xid DESC
    LIMIT 1
) + base, 0) AS position, pg_current_wal_insert_lsn()::text AS insert_lsn
FROM mulligan_log
