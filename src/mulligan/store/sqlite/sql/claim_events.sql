-- The event of each job that `claim.sql` has leased, in claim order.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, data)
SELECT :event, job.id, job.kind, job.owner, job.attempt, :now, iif(job.trigger = 'manual', :manual, :automatic)
FROM json_each(:picked) AS picked
CROSS JOIN mulligan_jobs AS job ON job.seq = picked.value
WHERE job.leased_by = :incarnation AND job.claim = :claim
