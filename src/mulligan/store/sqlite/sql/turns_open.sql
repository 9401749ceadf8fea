-- A queue and priority that is new, or was idle, begins at the present time: where its jobs would stand in a plain queue.
INSERT INTO mulligan_turns (queue, priority, rank)
SELECT json_extract(value, '$.queue'), json_extract(value, '$.priority'), coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER))
FROM json_each(:places)
WHERE true
ON CONFLICT DO NOTHING
