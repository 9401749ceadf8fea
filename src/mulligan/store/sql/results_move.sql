UPDATE mulligan_marks
SET position = :position, since = :since
WHERE name = 'results'
