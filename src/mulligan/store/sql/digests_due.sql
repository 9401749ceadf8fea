SELECT *
FROM mulligan_digests
WHERE due_at <= {{clock}}
ORDER BY due_at
LIMIT :limit
