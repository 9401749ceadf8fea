SELECT *
FROM mulligan_duties
ORDER BY at DESC, duty
