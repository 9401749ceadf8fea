UPDATE mulligan_depths
SET number = :number, took = :took
WHERE state = :state
