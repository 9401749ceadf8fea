DELETE FROM mulligan_groups
WHERE scope <> '' AND EXISTS (
    SELECT 1
    FROM mulligan_groups AS whole
    WHERE whole.id = mulligan_groups.id AND whole.scope = '' AND whole.failures = 0
)
