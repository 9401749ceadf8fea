SELECT tally
FROM mulligan_tallies
WHERE service = :service
