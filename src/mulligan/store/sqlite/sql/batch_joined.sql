-- Whether these accept members.
SELECT id, state
FROM mulligan_batches
WHERE id IN (SELECT value FROM json_each(:ids))
