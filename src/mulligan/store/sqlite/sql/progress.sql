UPDATE mulligan_jobs
SET progress = :ratio, progress_text = :text, updated_at = :now
WHERE id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim AND state = 'running'
