-- Count the live jobs of these owners that were stored before there was a limit, or without knowing it.
UPDATE mulligan_jobs
SET is_counted = true
WHERE owner = ANY (ARRAY(SELECT json_array_elements_text(:owners::json))) AND owner <> ''
  AND state IN ('waiting', 'queued', 'running') AND NOT is_counted
