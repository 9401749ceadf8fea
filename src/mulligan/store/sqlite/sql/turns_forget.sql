DELETE FROM mulligan_turns
WHERE (queue, priority) IN (
    SELECT json_extract(value, '$.queue'), json_extract(value, '$.priority')
    FROM json_each(:places)
)
