UPDATE mulligan_deliveries
SET state = 'pending', reason = NULL, job = :job, updated_at = {{clock}}
WHERE id = :id AND state IN ('delivered', 'failed', 'skipped')
RETURNING *
