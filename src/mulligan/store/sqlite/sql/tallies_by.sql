SELECT service, tally
FROM mulligan_tallies
WHERE worker = :worker AND service IN (SELECT value FROM json_each(:services))
