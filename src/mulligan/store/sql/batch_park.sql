-- A member of a draft that somebody moved by hand goes back to where the others wait.
UPDATE mulligan_jobs
SET gate = 'batch/' || batch, waiting_for = 'batch'
WHERE id = :id AND state = 'waiting'
