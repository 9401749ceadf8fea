-- Jobs blocked by a pause, a draft or an open service do not count.
SELECT EXISTS (
    SELECT 1
    FROM mulligan_jobs AS job
    WHERE state = 'queued' AND kind IN (SELECT value FROM json_each(:kinds))
      AND NOT EXISTS (
          SELECT 1
          FROM mulligan_pauses
          WHERE (what, name) IN (VALUES ('queue', job.queue), ('kind', job.kind), ('service', job.service))
            AND (until IS NULL OR until > :now)
      )
      AND NOT EXISTS (
          SELECT 1
          FROM mulligan_services
          WHERE name = job.service AND is_restricted AND ask_at > :now AND ask_at - hold <= :now
      )
) OR EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'running' AND kind IN (SELECT value FROM json_each(:kinds))
) OR EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'waiting' AND kind IN (SELECT value FROM json_each(:kinds))
      AND gate IS NULL AND (due_at <= :now OR waiting_for IN (SELECT value FROM json_each(:waiting_for)))
) OR EXISTS (
    SELECT 1
    FROM mulligan_batches AS batch
    CROSS JOIN mulligan_jobs AS job ON job.gate = 'batch/' || batch.id
    WHERE batch.admits = 1 AND job.state = 'waiting' AND job.due_at <= :now
      AND job.kind IN (SELECT value FROM json_each(:kinds))
) OR EXISTS (
    -- Retries that wait for a budget get it in time.
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'budget/' AND gate < 'budget0'
      AND kind IN (SELECT value FROM json_each(:kinds)) AND waiting_for IN (SELECT value FROM json_each(:waiting_for))
) OR EXISTS (
    SELECT 1
    FROM mulligan_jobs AS job
    WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'limit/' AND gate < 'limit0' AND gate NOT LIKE 'limit/pause/%'
      AND kind IN (SELECT value FROM json_each(:kinds))
      AND NOT (gate LIKE 'limit/service/%' AND EXISTS (
          SELECT 1
          FROM mulligan_services
          WHERE name = job.service AND is_restricted AND ask_at > :now AND ask_at - hold <= :now
      ))
) OR EXISTS (
    -- Jobs that wait for a service that may be tried now.
    SELECT 1
    FROM mulligan_jobs AS job
    WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'probe/' AND gate < 'probe0' AND kind IN (SELECT value FROM json_each(:kinds))
      AND NOT EXISTS (
          SELECT 1
          FROM mulligan_pauses
          WHERE (what, name) IN (VALUES ('queue', job.queue), ('kind', job.kind), ('service', job.service))
            AND (until IS NULL OR until > :now)
      )
      AND NOT EXISTS (
          SELECT 1
          FROM mulligan_services
          WHERE name = job.service AND is_restricted AND ask_at > :now AND ask_at - hold <= :now
      )
) AS is_busy
