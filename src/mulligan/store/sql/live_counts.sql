-- By the index `mulligan_jobs_counted`, whose condition is repeated here literally.
SELECT owner, count(*) AS number
FROM mulligan_jobs
WHERE owner = ANY (ARRAY(SELECT json_array_elements_text(:owners::json)))
  AND is_counted AND state IN ('waiting', 'queued', 'running')
GROUP BY owner
