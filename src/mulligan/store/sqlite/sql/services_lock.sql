-- There is only one writer.
SELECT value
FROM json_each(:names)
