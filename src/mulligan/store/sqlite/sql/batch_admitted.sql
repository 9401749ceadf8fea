-- Nobody is parked at their gates any more, and nobody can come: members come to drafts only.
UPDATE mulligan_batches
SET admits = 0
WHERE admits = 1 AND NOT EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE mulligan_jobs.state = 'waiting' AND gate = 'batch/' || mulligan_batches.id
)
