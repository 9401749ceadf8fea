-- Late jobs that the last pass should have moved: no statement can move them.
SELECT seq
FROM mulligan_jobs
WHERE deadline IS NOT NULL AND deadline <= :now AND state IN ('waiting', 'queued')
ORDER BY deadline
LIMIT :limit
