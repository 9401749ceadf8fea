-- The limits that a process announces. An older configuration does not overwrite a newer one.
INSERT INTO mulligan_limits (gate, most, per_day, per_month, cost, over, since, seen_at)
SELECT gate, most, per_day, per_month, cost, over, :since, :now
FROM json_to_recordset(:limits::json) AS given (gate text, most integer, per_day bigint, per_month bigint, cost bigint, over text)
ORDER BY gate
ON CONFLICT (gate) DO UPDATE
SET most = CASE WHEN excluded.since >= mulligan_limits.since THEN excluded.most ELSE mulligan_limits.most END,
    per_day = CASE WHEN excluded.since >= mulligan_limits.since THEN excluded.per_day ELSE mulligan_limits.per_day END,
    per_month = CASE WHEN excluded.since >= mulligan_limits.since THEN excluded.per_month ELSE mulligan_limits.per_month END,
    cost = CASE WHEN excluded.since >= mulligan_limits.since THEN excluded.cost ELSE mulligan_limits.cost END,
    over = CASE WHEN excluded.since >= mulligan_limits.since THEN excluded.over ELSE mulligan_limits.over END,
    is_swept = mulligan_limits.is_swept AND (mulligan_limits.most IS NOT NULL OR excluded.most IS NULL),
    since = greatest(excluded.since, mulligan_limits.since),
    seen_at = excluded.seen_at
