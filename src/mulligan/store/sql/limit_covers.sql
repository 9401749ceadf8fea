CASE :what::text
          WHEN 'kind' THEN kind = :name::text
          WHEN 'queue' THEN queue = :name::text
          ELSE owner <> '' AND (owner = :name::text OR (:name::text = '*' AND NOT EXISTS (
              SELECT 1 FROM mulligan_limits AS own WHERE own.gate = 'owner/' || mulligan_jobs.owner AND own.most IS NOT NULL
          )))
      END
