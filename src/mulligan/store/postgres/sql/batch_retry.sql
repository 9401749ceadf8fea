-- As `manual_retry.sql`, for many members. Skips members whose dedupe key another job holds now.
WITH chosen AS (
    SELECT DISTINCT ON (job.owner, job.kind, coalesce(job.dedupe_key, job.id)) job.id
    FROM mulligan_jobs AS job
    WHERE job.id IN (SELECT value FROM json_array_elements_text(:jobs::json)) AND job.batch = :batch AND job.state = :source
      AND (job.dedupe_key IS NULL OR NOT EXISTS (
          SELECT 1
          FROM mulligan_jobs AS twin
          WHERE twin.owner = job.owner AND twin.kind = job.kind AND twin.dedupe_key = job.dedupe_key AND twin.id <> job.id
            AND (twin.state IN ('waiting', 'queued', 'running')
                 OR (twin.dedupe_scope = 'succeeded' AND job.dedupe_scope = 'succeeded' AND twin.state = 'succeeded'))
      ))
)
UPDATE mulligan_jobs AS job
SET state = :target, waiting_for = CASE WHEN :gate::text IS NULL THEN 'retry' ELSE 'batch' END, gate = :gate, due_at = clock.now,
    failures = 0, crashes = 0, losses = 0, snoozes = 0, code_failures = '{}', previous_delay = NULL,
    manual_retries = manual_retries + 1, trigger = 'manual',
    deadline = CASE WHEN deadline > clock.now THEN deadline END,
    result = NULL, error_code = NULL, error_class = NULL, error_message = NULL, error_group = NULL,
    progress = 0, progress_text = '', finished_at = NULL, cancel_requested = false, updated_at = clock.now
FROM chosen, (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
WHERE job.id = chosen.id AND job.state = :source
RETURNING job.id, job.kind, job.owner, job.attempt, clock.now
