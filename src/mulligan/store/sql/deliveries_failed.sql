UPDATE mulligan_deliveries
SET state = 'failed', reason = :reason, updated_at = {{clock}}
WHERE job = :job AND state = 'pending'
