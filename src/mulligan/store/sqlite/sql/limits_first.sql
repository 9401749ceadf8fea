-- The first jobs blocked under each of these gates.
SELECT job.id, job.gate, job.kind, job.queue, job.owner, job.service, job.priority, job.rank
FROM json_each(:gates) AS given
JOIN mulligan_jobs AS job ON job.seq IN (
    SELECT seq
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate = given.value
    ORDER BY priority, rank
    LIMIT :each
)
