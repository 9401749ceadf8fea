UPDATE mulligan_log
SET base = base
