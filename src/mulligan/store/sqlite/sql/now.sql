-- The time every statement of a transaction goes by: this machine's, to the millisecond.
SELECT CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)
