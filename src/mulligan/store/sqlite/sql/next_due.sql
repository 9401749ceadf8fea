SELECT min(due_at)
FROM mulligan_jobs
WHERE state = 'waiting' AND gate IS NULL
