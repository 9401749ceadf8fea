-- By explicit list. An expired lease that no worker has taken still belongs to its holder.
UPDATE mulligan_jobs AS job
SET lease_until = coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + :lease
FROM jsonb_to_recordset(:fences::jsonb) AS fence (id text, attempt integer, incarnation text, claim bigint)
WHERE job.id = fence.id AND job.attempt = fence.attempt AND job.leased_by = fence.incarnation
  AND job.claim = fence.claim AND job.state = 'running'
RETURNING job.id, job.attempt, job.leased_by, job.claim
