-- By explicit list. An expired lease that no worker has taken still belongs to its holder.
UPDATE mulligan_jobs
SET lease_until = :now + :lease
WHERE state = 'running' AND id IN (SELECT json_extract(value, '$.id') FROM json_each(:fences))
  AND (id, attempt, leased_by, claim) IN (
      SELECT json_extract(value, '$.id'), json_extract(value, '$.attempt'), json_extract(value, '$.incarnation'), json_extract(value, '$.claim')
      FROM json_each(:fences)
  )
RETURNING id, attempt, leased_by, claim
