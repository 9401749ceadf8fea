-- Whether members may come to these, and they may until we are done: publishing waits for this lock. Counting does not, so
-- that a caller's open transaction holds up no settle.
SELECT id, state
FROM mulligan_batches
WHERE id IN (SELECT value FROM json_array_elements_text(:ids::json))
ORDER BY id
FOR KEY SHARE
