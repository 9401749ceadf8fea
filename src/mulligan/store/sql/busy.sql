EXISTS (
    SELECT 1
    FROM mulligan_jobs AS lane
    WHERE state = 'queued' AND kind = ANY (ARRAY(SELECT json_array_elements_text(:kinds::json)))
      AND NOT ({{lane_waits}})
) OR EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'running' AND kind = ANY (ARRAY(SELECT json_array_elements_text(:kinds::json)))
) OR EXISTS (
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'waiting' AND kind = ANY (ARRAY(SELECT json_array_elements_text(:kinds::json)))
      AND gate IS NULL AND (due_at <= (SELECT {{clock}}) OR waiting_for = ANY (ARRAY(SELECT json_array_elements_text(:waiting_for::json))))
) OR EXISTS (
    SELECT 1
    FROM mulligan_batches AS batch
    JOIN mulligan_jobs AS job ON job.gate = 'batch/' || batch.id
    WHERE {{admits}} AND job.state = 'waiting' AND job.due_at <= (SELECT {{clock}})
      AND job.kind = ANY (ARRAY(SELECT json_array_elements_text(:kinds::json)))
) OR EXISTS (
    -- Retries that wait for a budget get it in time.
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'budget/' AND gate < 'budget0'
      AND kind = ANY (ARRAY(SELECT json_array_elements_text(:kinds::json))) AND waiting_for = ANY (ARRAY(SELECT json_array_elements_text(:waiting_for::json)))
) OR EXISTS (
    SELECT 1
    FROM mulligan_jobs AS job
    WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'limit/' AND gate < 'limit0' AND gate NOT LIKE 'limit/pause/%'
      AND kind = ANY (ARRAY(SELECT json_array_elements_text(:kinds::json)))
      AND NOT (gate LIKE 'limit/service/%' AND EXISTS (
          SELECT 1
          FROM mulligan_services
          WHERE name = job.service AND is_restricted AND ask_at > {{clock}} AND ask_at - hold <= {{clock}}
      ))
) OR EXISTS (
    -- Jobs that wait for a service that may be tried now.
    SELECT 1
    FROM mulligan_jobs AS lane
    WHERE state = 'waiting' AND gate IS NOT NULL AND gate > 'probe/' AND gate < 'probe0'
      AND kind = ANY (ARRAY(SELECT json_array_elements_text(:kinds::json)))
      AND NOT ({{lane_waits}})
)
