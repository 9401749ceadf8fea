-- What a subscription that is removed leaves behind is not sent.
UPDATE mulligan_deliveries
SET state = 'skipped', reason = :reason, updated_at = {{clock}}
WHERE subscription = :id AND (state = 'pending' OR state = 'suppressed' AND digest IS NULL)
