SELECT gate
FROM mulligan_limits
WHERE NOT is_swept AND most IS NOT NULL
ORDER BY gate
LIMIT :limit
