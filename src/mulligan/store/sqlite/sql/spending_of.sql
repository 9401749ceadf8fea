SELECT owner, period, retries, cost
FROM mulligan_spending
WHERE owner IN (SELECT value FROM json_each(:owners)) AND period IN (SELECT value FROM json_each(:periods))
