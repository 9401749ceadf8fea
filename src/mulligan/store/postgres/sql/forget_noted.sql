-- Before the events are deleted, so that readers learn of it.
UPDATE mulligan_log
SET pruned = greatest(pruned, base + coalesce((
    SELECT max(xid::text::bigint)
    FROM mulligan_events
    WHERE owner = :owner AND owner <> ''
), 0))
