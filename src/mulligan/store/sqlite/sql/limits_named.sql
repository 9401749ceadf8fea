SELECT gate, most
FROM mulligan_limits
WHERE most IS NOT NULL AND gate IN (SELECT value FROM json_each(:gates))
