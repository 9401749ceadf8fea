-- Due jobs that the last pass should have moved: no statement can move them.
SELECT seq
FROM mulligan_jobs
WHERE state = 'waiting' AND gate IS NULL AND due_at <= :now
ORDER BY due_at
LIMIT :limit
