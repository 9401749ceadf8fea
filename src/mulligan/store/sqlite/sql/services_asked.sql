-- Services of which a claim may not simply take, that have ready jobs for it and may be asked now.
SELECT name, epoch, standing
FROM mulligan_services
WHERE is_restricted AND name IN (SELECT value FROM json_each(:names)) AND NOT (ask_at > :now AND ask_at - hold <= :now)
ORDER BY name
