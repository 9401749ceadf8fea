-- Only if no other process has evaluated meanwhile. It waits for this row.
UPDATE mulligan_alert_evaluation
SET version = version + 1, at = {{clock}}, worker = :worker
WHERE version = :version
RETURNING version
