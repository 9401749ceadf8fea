-- The event of each job that `settle_succeeded.sql` has settled: `:data` has their data by id.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, data)
SELECT :type, job.id, job.kind, job.owner, job.attempt, :at, settled.value
FROM json_each(:data) AS settled
CROSS JOIN mulligan_jobs AS job ON job.id = settled.key
