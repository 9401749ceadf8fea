-- Whether jobs of an owner are left, or events that a reader has not read.
SELECT 1 AS is_left
WHERE EXISTS (SELECT 1 FROM mulligan_jobs WHERE owner = :owner AND owner <> '')
  OR EXISTS (
    SELECT 1
    FROM mulligan_events
    WHERE owner = :owner AND owner <> '' AND position > (SELECT min(position) FROM mulligan_cursors)
  )
