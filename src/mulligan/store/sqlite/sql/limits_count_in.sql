-- What runs since before there was this limit holds a place too.
UPDATE mulligan_jobs
SET is_limited = true
WHERE state = 'running' AND NOT is_limited
  AND CASE :what
          WHEN 'kind' THEN kind = :name
          WHEN 'queue' THEN queue = :name
          ELSE owner <> '' AND (owner = :name OR (:name = '*' AND NOT EXISTS (
              SELECT 1 FROM mulligan_limits AS own WHERE own.gate = 'owner/' || mulligan_jobs.owner AND own.most IS NOT NULL
          )))
      END
