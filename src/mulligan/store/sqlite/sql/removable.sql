-- Those whose whole history was read by everybody who follows the log.
SELECT value AS id
FROM json_each(:ids)
WHERE NOT EXISTS (
    SELECT 1
    FROM mulligan_events
    WHERE job = value AND position > (SELECT min(position) FROM mulligan_cursors)
)
