-- A member of a draft that was moved manually is blocked again like the others.
UPDATE mulligan_jobs
SET gate = 'batch/' || batch, waiting_for = 'batch'
WHERE id = :id AND state = 'waiting'
