-- For the doctor: what was not delivered lately.
SELECT state, channel, count(*) AS number, max(reason) AS reason
FROM mulligan_deliveries
WHERE updated_at > {{clock}} - 86400000000 AND state IN ('failed', 'skipped')
GROUP BY state, channel
