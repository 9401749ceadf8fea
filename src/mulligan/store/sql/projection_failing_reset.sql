DELETE FROM mulligan_failing
WHERE NOT EXISTS (
    SELECT 1
    FROM mulligan_groups AS kept
    WHERE kept.id = mulligan_failing.error_group AND kept.scope = '' AND kept.failures > 0
)
