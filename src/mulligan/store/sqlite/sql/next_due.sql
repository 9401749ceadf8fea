SELECT min(due_at) AS due
FROM mulligan_jobs
WHERE state = 'waiting' AND gate IS NULL
