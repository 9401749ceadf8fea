-- Before the events are deleted, so that readers learn of it.
UPDATE mulligan_log
SET pruned = max(pruned, coalesce((SELECT max(position) FROM mulligan_events WHERE owner = :owner AND owner <> ''), 0))
