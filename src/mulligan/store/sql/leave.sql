DELETE FROM mulligan_workers
WHERE incarnation = :incarnation
