SELECT version, at, worker, {{clock}} AS now
FROM mulligan_alert_evaluation
