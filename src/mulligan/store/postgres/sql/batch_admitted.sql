-- Their gates block no job any more, and will block none: only drafts get new members.
UPDATE mulligan_batches
SET admits = false
WHERE id = ANY (ARRAY(
    SELECT id
    FROM mulligan_batches AS batch
    WHERE admits AND NOT EXISTS (
        SELECT 1
        FROM mulligan_jobs AS job
        WHERE job.state = 'waiting' AND job.gate = 'batch/' || batch.id
    )
    FOR UPDATE SKIP LOCKED
))
