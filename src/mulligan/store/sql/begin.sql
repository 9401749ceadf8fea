-- Record that the code of an attempt is about to run, once per attempt: a second call matches no row.
UPDATE mulligan_jobs
SET begun_attempt = attempt
WHERE id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim AND state = 'running'
  AND coalesce(begun_attempt, 0) <> attempt
RETURNING id
