-- Which of these services a claim may not simply take of.
SELECT name, epoch, standing
FROM mulligan_services
WHERE is_restricted AND name IN (SELECT value FROM json_each(:names))
