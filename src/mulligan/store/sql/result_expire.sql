UPDATE mulligan_jobs
SET result = NULL, result_expired_at = :at, updated_at = :at
WHERE id = :id AND state = 'succeeded' AND result_expired_at IS NULL
RETURNING id
