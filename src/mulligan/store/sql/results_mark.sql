SELECT position, since
FROM mulligan_marks
WHERE name = 'results'
