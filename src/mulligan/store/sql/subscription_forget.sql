DELETE FROM {table}
WHERE subscription = :id
