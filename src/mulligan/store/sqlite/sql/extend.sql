-- By explicit list. An expired lease that nobody took is still its holder's.
UPDATE mulligan_jobs
SET lease_until = :now + :lease
WHERE id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim AND state = 'running'
