-- Changes nothing. It takes the lock of the writer, and makes Python's sqlite3 begin a transaction.
DELETE FROM mulligan_jobs
WHERE false
