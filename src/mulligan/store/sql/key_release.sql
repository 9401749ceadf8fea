-- Another job may take the key now.
UPDATE mulligan_jobs
SET dedupe_key = NULL, dedupe_until = NULL, updated_at = :at
WHERE id = :id
