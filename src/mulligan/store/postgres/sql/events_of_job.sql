-- The row lock ordered them. A reader of one job sees committed events at once.
SELECT xid::text::bigint + base AS position, type, job, kind, owner, attempt, at, actor, code, data
FROM mulligan_events, mulligan_log
WHERE job = :job AND xid::text::bigint + base > :after
  AND (:owner::text IS NULL OR owner = :owner)
ORDER BY seq
LIMIT :limit
