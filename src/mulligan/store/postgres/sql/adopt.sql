-- Only completed calls: rows of a call whose reply is still on its way would run twice.
SELECT *
FROM mulligan_jobs
WHERE state = 'running' AND leased_by = :incarnation AND claim < :before
  AND id <> ALL (:held::text[])
