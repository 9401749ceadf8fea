-- Jobs whose events all cursors have passed.
SELECT value AS id
FROM json_each(:ids)
WHERE NOT EXISTS (
    SELECT 1
    FROM mulligan_events
    WHERE job = value AND position > (SELECT min(position) FROM mulligan_cursors)
)
