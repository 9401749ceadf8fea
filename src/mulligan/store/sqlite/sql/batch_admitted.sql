-- Their gates block no job any more, and will block none: only drafts get new members.
UPDATE mulligan_batches
SET admits = 0
WHERE admits = 1 AND NOT EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE mulligan_jobs.state = 'waiting' AND gate = 'batch/' || mulligan_batches.id
)
