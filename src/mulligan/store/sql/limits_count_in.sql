-- Jobs that were running before there was this limit take a slot too.
UPDATE mulligan_jobs
SET is_limited = true
WHERE state = 'running' AND NOT is_limited
  AND CASE :what::text
          WHEN 'kind' THEN kind = :name::text
          WHEN 'queue' THEN queue = :name::text
          ELSE owner <> '' AND (owner = :name::text OR (:name::text = '*' AND NOT EXISTS (
              SELECT 1 FROM mulligan_limits AS own WHERE own.gate = 'owner/' || mulligan_jobs.owner AND own.most IS NOT NULL
          )))
      END
