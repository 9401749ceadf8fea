UPDATE mulligan_service_names
SET checked_at = :now
WHERE seq IN (SELECT value FROM json_each(:names))
