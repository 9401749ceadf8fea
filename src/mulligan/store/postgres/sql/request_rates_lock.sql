-- The buckets of these subjects, locked until the requests are admitted; a new one is full.
INSERT INTO mulligan_request_rates AS bucket (subject, at, full_at)
SELECT subject, 0, 0
FROM json_array_elements_text(:subjects::json) AS given (subject)
ORDER BY subject COLLATE "C"
ON CONFLICT (subject) DO UPDATE
SET at = bucket.at
RETURNING subject, remaining, at, {{clock}} AS now
