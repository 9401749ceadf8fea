-- Whether a settle will be accepted. There is only one writer.
SELECT id
FROM mulligan_jobs
WHERE {{fence}}
