-- All events of these jobs, by job, each in order.
SELECT xid::text::bigint + base AS position, type, job, kind, owner, attempt, at, actor, code, data
FROM mulligan_events, mulligan_log
WHERE job IN (SELECT json_array_elements_text(:jobs::json))
ORDER BY job, seq
