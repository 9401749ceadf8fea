-- An attempt of a job that was replaced by a later one changes nothing that is over.
UPDATE mulligan_deliveries
SET state = :state, reason = :reason, attempts = attempts + :attempts, status = :status, response = :response,
    seconds = :seconds, updated_at = {{clock}},
    delivered_at = CASE WHEN :state = 'delivered' THEN {{clock}} ELSE delivered_at END
WHERE id = :id AND state = 'pending'
RETURNING id
