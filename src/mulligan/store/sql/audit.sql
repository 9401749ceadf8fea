SELECT *
FROM mulligan_audit
WHERE {conditions}
ORDER BY id DESC
LIMIT :limit
