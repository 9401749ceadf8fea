-- The limits that a process announces. An older configuration does not overwrite a newer one.
INSERT INTO mulligan_limits (gate, most, per_day, per_month, cost, over, since, seen_at)
SELECT json_extract(value, '$.gate'), json_extract(value, '$.most'), json_extract(value, '$.per_day'), json_extract(value, '$.per_month'), json_extract(value, '$.cost'), json_extract(value, '$.over'), :since, :now
FROM json_each(:limits)
WHERE true
ON CONFLICT (gate) DO UPDATE
SET most = iif(excluded.since >= since, excluded.most, most),
    per_day = iif(excluded.since >= since, excluded.per_day, per_day),
    per_month = iif(excluded.since >= since, excluded.per_month, per_month),
    cost = iif(excluded.since >= since, excluded.cost, cost),
    over = iif(excluded.since >= since, excluded.over, over),
    is_swept = is_swept AND (most IS NOT NULL OR excluded.most IS NULL),
    since = max(excluded.since, since),
    seen_at = excluded.seen_at
