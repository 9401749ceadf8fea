-- What people decided stays.
UPDATE mulligan_groups
SET failures = 0, jobs = 0, failed = 0, recovered = 0, cost = 0, heat = 0, owners = 0
WHERE scope = '' AND first_seen_at >= :since
