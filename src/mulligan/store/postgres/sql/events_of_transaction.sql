-- A page never ends inside a transaction: one that is larger than a page is a page by itself.
SELECT xid::text::bigint + :base AS position, type, job, kind, owner, attempt, at, actor, code, data
FROM mulligan_events
WHERE xid = :xid::text::xid8
  AND (:owner::text IS NULL OR owner = :owner)
ORDER BY seq
