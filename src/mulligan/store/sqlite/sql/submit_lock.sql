-- The buckets of these owners; a new one is full. Writing is the lock: no other transaction writes until this one
-- commits.
INSERT INTO mulligan_submissions (owner, at, full_at)
SELECT value, 0, 0
FROM json_each(:owners)
WHERE true
ON CONFLICT (owner) DO UPDATE
SET at = at
RETURNING owner, remaining, at, counted_until, coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)) AS now
