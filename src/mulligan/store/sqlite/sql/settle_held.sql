-- Whether a settle will be accepted. Whoever writes here is alone.
SELECT id
FROM mulligan_jobs
WHERE {{fence}}
