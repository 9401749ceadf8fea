DELETE FROM mulligan_failing
WHERE job IN (SELECT value FROM json_each(:ids))
