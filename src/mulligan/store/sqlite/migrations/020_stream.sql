-- Code of earlier schemas goes on working with this: it only deletes events without noting it.

-- The highest position of any deleted event: a reader below it has missed something. What was deleted before is not known, so
-- that everything counts as seen too late if anything is missing.
CREATE TABLE mulligan_log (
    pruned INTEGER NOT NULL
) STRICT;

INSERT INTO mulligan_log
SELECT iif(number = last, 0, last)
FROM (
    SELECT (SELECT count(*) FROM mulligan_events) AS number,
        coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'mulligan_events'), 0) AS last
);
