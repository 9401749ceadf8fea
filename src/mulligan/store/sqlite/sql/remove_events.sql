DELETE FROM mulligan_events
WHERE job IN (SELECT value FROM json_each(:ids))
