-- Until the next period, or until the budget is raised. Written once.
UPDATE mulligan_jobs
SET waiting_for = 'budget', due_at = json_extract(given.value, '$.due_at'), updated_at = :now
FROM json_each(:jobs) AS given
WHERE mulligan_jobs.id = json_extract(given.value, '$.id') AND state = 'waiting'
  AND (waiting_for <> 'budget' OR due_at <> json_extract(given.value, '$.due_at'))
