-- Code of earlier schemas goes on working with this: events that it folds are missing from the totals.

-- The series of metrics that are added up from the log. They are never reset: not by a rebuild, not by deleting statistics.
CREATE TABLE mulligan_totals (
    name       TEXT    NOT NULL,
    -- The values of its labels, as a JSON array.
    labels     TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    seconds    REAL    NOT NULL,
    histogram  TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (name, labels)
) STRICT, WITHOUT ROWID;

-- Services whose breaker is open, as far as the log was folded. The time until `counted_until` is in the totals.
CREATE TABLE mulligan_breakers (
    service       TEXT    PRIMARY KEY,
    since         INTEGER NOT NULL,
    counted_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How many jobs are in a state. A worker counts them now and then: too many to count them whenever someone asks.
CREATE TABLE mulligan_depths (
    state      TEXT    PRIMARY KEY,
    number     INTEGER NOT NULL,
    counted_at INTEGER NOT NULL,
    -- Microseconds that the count took.
    took       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO mulligan_depths (state, number, counted_at, took) VALUES ('queued', 0, 0, 0), ('waiting', 0, 0, 0);
