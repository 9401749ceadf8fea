DELETE FROM {table}
WHERE {conditions}
