DELETE FROM mulligan_service_names
WHERE seq IN (SELECT value FROM json_each(:names))
