SELECT coalesce((SELECT xid::text::bigint FROM mulligan_events ORDER BY xid DESC, seq DESC LIMIT 1 OFFSET :back) + base, 0)
FROM mulligan_log
