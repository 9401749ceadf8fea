-- The next jobs blocked under a gate, after one of them. The ids tell jobs of the same rank apart.
SELECT id, owner, priority, rank, cost
FROM mulligan_jobs
WHERE state = 'waiting' AND gate = :gate AND (priority, rank, id) > (:priority, :rank, :id)
ORDER BY gate, priority, rank, id
LIMIT :each
FOR UPDATE SKIP LOCKED
