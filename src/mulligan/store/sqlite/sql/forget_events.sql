-- The last position of the owner's events in a page of those that belong to no job, and where the last reader is.
SELECT coalesce(max(position), 0) AS own, (SELECT min(position) FROM mulligan_cursors) AS read
FROM mulligan_events
WHERE job = '' AND position > :after AND position <= :last AND owner = :owner
