-- Each metric has a limited number of series.
SELECT name, labels, number, seconds, histogram
FROM mulligan_totals
ORDER BY name, labels
