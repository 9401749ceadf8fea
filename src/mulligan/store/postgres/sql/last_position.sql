SELECT coalesce((SELECT xid::text::bigint FROM mulligan_events ORDER BY xid DESC LIMIT 1) + base, 0)
FROM mulligan_log
