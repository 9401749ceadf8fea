-- The counts of a worker are read, incremented and written: its settles and reclaims do so one after another.
SELECT pg_advisory_xact_lock(7216105, hashtext(:worker))
