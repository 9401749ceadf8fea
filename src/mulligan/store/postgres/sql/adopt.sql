-- Only calls that are closed: rows of one whose reply is on the wire would be run twice.
SELECT *
FROM mulligan_jobs
WHERE state = 'running' AND leased_by = :incarnation AND claim < :before
  AND id <> ALL (:held::text[])
