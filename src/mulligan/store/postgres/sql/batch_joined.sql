-- Whether these accept members. Publishing waits for this lock until the transaction ends. Counting does not, so a
-- caller's open transaction delays no settle.
SELECT id, state
FROM mulligan_batches
WHERE id IN (SELECT value FROM json_array_elements_text(:ids::json))
ORDER BY id
FOR KEY SHARE
