-- Due, within the pass just made, and still here: no statement can move them.
SELECT seq
FROM mulligan_jobs
WHERE state = 'waiting' AND gate IS NULL AND due_at <= :now
ORDER BY due_at
LIMIT :limit
