-- Below `horizon` no transaction is open. What is above `insert_lsn` in the write-ahead log could still be lost in a
-- crash, and its transaction ids used again.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon, pg_current_wal_insert_lsn()::text AS insert_lsn, base
FROM mulligan_log
