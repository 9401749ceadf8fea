-- Code of earlier schemas goes on working with this: events that it folds are missing from the totals.

-- The series of metrics that are added up from the log. They are never reset: not by a rebuild, not by deleting statistics.
CREATE TABLE mulligan_totals (
    name       text COLLATE "C"  NOT NULL,
    -- The values of its labels, as a JSON array.
    labels     text COLLATE "C"  NOT NULL,
    number     bigint            NOT NULL,
    seconds    double precision  NOT NULL,
    histogram  text              NOT NULL,
    updated_at bigint            NOT NULL,
    PRIMARY KEY (name, labels)
) WITH (fillfactor = 50);

-- Services whose breaker is open, as far as the log was folded. The time until `counted_until` is in the totals.
CREATE TABLE mulligan_breakers (
    service       text COLLATE "C" PRIMARY KEY,
    since         bigint NOT NULL,
    counted_until bigint NOT NULL
);

-- How many jobs are in a state. A worker counts them now and then: too many to count them whenever someone asks.
CREATE TABLE mulligan_depths (
    state      text COLLATE "C" PRIMARY KEY,
    number     bigint NOT NULL,
    counted_at bigint NOT NULL,
    -- Microseconds that the count took.
    took       bigint NOT NULL
);
INSERT INTO mulligan_depths (state, number, counted_at, took) VALUES ('queued', 0, 0, 0), ('waiting', 0, 0, 0);
