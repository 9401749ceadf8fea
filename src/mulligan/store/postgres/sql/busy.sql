-- What a pause or a draft holds back is not waited for.
SELECT EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'queued' AND kind = ANY (:kinds::text[])
) OR EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'running' AND kind = ANY (:kinds::text[])
) OR EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'waiting' AND kind = ANY (:kinds::text[])
      AND gate IS NULL AND (due_at <= coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) OR waiting_for = ANY (:waiting_for::text[]))
) OR EXISTS (
    SELECT 1
    FROM mulligan_batches AS batch
    JOIN mulligan_jobs AS job ON job.gate = 'batch/' || batch.id
    WHERE batch.admits AND job.state = 'waiting' AND job.due_at <= coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
      AND job.kind = ANY (:kinds::text[])
) OR EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'limit/' AND gate < 'limit0' AND gate NOT LIKE 'limit/pause/%'
      AND kind = ANY (:kinds::text[])
)
