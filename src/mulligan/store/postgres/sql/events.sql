SELECT xid::text::bigint + :base AS position, type, job, kind, owner, attempt, at, actor, code, data
FROM mulligan_events
WHERE xid > :after::text::xid8 AND xid < :horizon::text::xid8
  AND (:owner::text IS NULL OR owner = :owner)
ORDER BY xid, seq
LIMIT :limit
