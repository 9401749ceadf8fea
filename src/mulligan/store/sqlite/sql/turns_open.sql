-- A new or idle queue and priority begins at the present time, like a plain queue.
INSERT INTO mulligan_turns (queue, priority, rank)
SELECT json_extract(value, '$.queue'), json_extract(value, '$.priority'), coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER))
FROM json_each(:places)
WHERE true
ON CONFLICT DO NOTHING
