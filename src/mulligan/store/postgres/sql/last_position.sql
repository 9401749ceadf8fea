-- The stream ends below the oldest open transaction: an event of that one may come before later ones. Events of one
-- transaction share a position, so the result is before the transaction of the oldest event counted back. The position
-- of a deleted event counts: a reader that begins there misses nothing.
-- What is above `insert_lsn` in the write-ahead log could still be lost in a crash, and its transaction ids used again.
SELECT greatest(coalesce((
    SELECT event.xid::text::bigint
    FROM mulligan_events AS event
    WHERE event.xid < CASE WHEN :back::bigint = 0 THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE (
        SELECT xid
        FROM mulligan_events
        WHERE xid < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY xid DESC, seq DESC
        LIMIT 1 OFFSET greatest(:back::bigint - 1, 0)
    ) END
    -- Not the column of the result, which has no index.
    ORDER BY event.xid DESC
    LIMIT 1
) + base, 0), CASE
    WHEN :back = 0 AND pruned - base < pg_snapshot_xmin(pg_current_snapshot())::text::bigint THEN pruned
    ELSE 0
END) AS position, pg_current_wal_insert_lsn()::text AS insert_lsn
FROM mulligan_log
