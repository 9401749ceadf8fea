-- The event of each job that `enqueue_alike.sql` has stored: `:jobs` has the jobs by id.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, data)
SELECT :type, key, :kind, :owner, 0, :at, :data
FROM json_each(:jobs)
