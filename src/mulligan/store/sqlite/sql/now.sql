-- The time of all statements of a transaction: this machine's, in milliseconds.
SELECT CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) AS now
