-- What a worker heard is read, added to and written: its settles and its reclaims do so one after another.
SELECT pg_advisory_xact_lock(7216105, hashtext(:worker))
