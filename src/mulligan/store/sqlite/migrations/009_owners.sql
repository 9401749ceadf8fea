-- Code of earlier schemas goes on working with this: it only takes no turns.

-- V of the fair queues: the highest rank claimed. Never falls.
CREATE TABLE mulligan_turns (
    queue    TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    rank     INTEGER NOT NULL,
    PRIMARY KEY (queue, priority)
) STRICT, WITHOUT ROWID;

-- The last rank of an owner in a fair queue; `taken` is by how much it grew last.
CREATE TABLE mulligan_shares (
    queue    TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    owner    TEXT    NOT NULL,
    rank     INTEGER NOT NULL,
    taken    INTEGER NOT NULL,
    PRIMARY KEY (queue, priority, owner)
) STRICT, WITHOUT ROWID;
CREATE INDEX mulligan_shares_past ON mulligan_shares (queue, priority, rank);

-- How fast owners submit: how many jobs were left in the bucket of an owner at a time, none yet is all of them; and when it
-- will be full again.
CREATE TABLE mulligan_submissions (
    owner     TEXT    PRIMARY KEY,
    remaining REAL,
    at        INTEGER NOT NULL,
    full_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX mulligan_submissions_full ON mulligan_submissions (full_at);
