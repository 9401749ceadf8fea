SELECT pg_current_wal_flush_lsn() >= :lsn::pg_lsn AS is_flushed
