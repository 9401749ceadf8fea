UPDATE mulligan_limits
SET is_swept = true
WHERE gate = :gate
