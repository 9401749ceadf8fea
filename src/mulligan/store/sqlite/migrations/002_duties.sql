-- Code of schema 1 goes on working with this: what it does not know of is NULL or in tables of its own.

-- How long an attempt may take by its task's word, kept here because who looks for stuck jobs may not know the kind.
ALTER TABLE mulligan_jobs ADD COLUMN timeout INTEGER;

-- Due, but a gate (a pause, say) refuses them: out of the due index, so that they stand in nobody's way.
CREATE INDEX mulligan_jobs_parked ON mulligan_jobs (gate, priority, rank) WHERE state = 'waiting' AND gate IS NOT NULL;

CREATE TABLE mulligan_pauses (
    what   TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    since  INTEGER NOT NULL,
    -- It is over then by itself; NULL: somebody has to resume it.
    until  INTEGER,
    actor  TEXT,
    reason TEXT,
    PRIMARY KEY (what, name)
) STRICT, WITHOUT ROWID;

-- A row for each duty and worker, written by that worker only, once in a while.
CREATE TABLE mulligan_duties (
    duty     TEXT    NOT NULL,
    worker   TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    took     INTEGER NOT NULL,
    did      INTEGER NOT NULL,
    interval INTEGER,
    batch    INTEGER,
    actor    TEXT,
    reason   TEXT,
    PRIMARY KEY (duty, worker)
) STRICT, WITHOUT ROWID;
