-- The buckets of these owners, locked until the jobs are committed; a new one is full.
INSERT INTO mulligan_submissions AS bucket (owner, at, full_at)
SELECT owner, 0, 0
FROM jsonb_array_elements_text(:owners::jsonb) AS given (owner)
ORDER BY owner COLLATE "C"
ON CONFLICT (owner) DO UPDATE
SET at = bucket.at
RETURNING owner, remaining, at, counted_until, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
