-- Only if it has not changed since it was read.
UPDATE mulligan_operations
SET state = :state, retried = :retried, skipped = :skipped, succeeded = :succeeded, failed_again = :failed_again,
    silent = :silent, purged = :purged, because = :because, ended_at = :ended_at, cursors = :cursors, watched = :watched,
    recent = :recent, paced_at = :paced_at, held_by = :held_by, held_until = :held_until, version = version + 1
WHERE id = :id AND version = :version
