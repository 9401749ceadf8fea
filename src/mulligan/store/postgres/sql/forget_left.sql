-- Whether jobs of an owner are left, or events that a reader has not read.
SELECT 1 AS is_left
WHERE EXISTS (SELECT 1 FROM mulligan_jobs WHERE owner = :owner AND owner <> '')
  OR EXISTS (
    SELECT 1
    FROM mulligan_events, mulligan_log
    WHERE owner = :owner AND owner <> '' AND xid::text::bigint + base > (SELECT min(position) FROM mulligan_cursors)
  )
