-- The buckets of these subjects; a new one is full. Writing is the lock: no other transaction writes until this one
-- commits.
INSERT INTO mulligan_request_rates (subject, at, full_at)
SELECT value, 0, 0
FROM json_each(:subjects)
WHERE true
ON CONFLICT (subject) DO UPDATE
SET at = at
RETURNING subject, remaining, at, :now AS now
