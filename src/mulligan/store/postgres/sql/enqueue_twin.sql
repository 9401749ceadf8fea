-- The other job that holds the key, by any of the three rules; a live one first.
SELECT *
FROM mulligan_jobs
WHERE owner = :owner AND kind = :kind AND dedupe_key = :dedupe_key AND id <> :id
  AND (state IN ('waiting', 'queued', 'running')
       OR (dedupe_scope = 'succeeded' AND state = 'succeeded')
       OR dedupe_until IS NOT NULL)
ORDER BY state IN ('waiting', 'queued', 'running') DESC, id DESC
LIMIT 1
