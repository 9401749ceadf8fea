-- Before events are deleted, so that readers learn of it.
UPDATE mulligan_log
SET pruned = greatest(pruned, :position)
