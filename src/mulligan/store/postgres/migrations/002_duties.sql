-- Code of schema 1 goes on working with this: what it does not know of is NULL or in tables of its own.

-- How long an attempt may take by its task's word, kept here because who looks for stuck jobs may not know the kind.
ALTER TABLE mulligan_jobs ADD COLUMN timeout bigint;

-- Due, but a gate (a pause, say) refuses them: out of the due index, so that they stand in nobody's way.
CREATE INDEX mulligan_jobs_parked ON mulligan_jobs (gate, priority, rank) WHERE state = 'waiting' AND gate IS NOT NULL;

CREATE TABLE mulligan_pauses (
    what   text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    since  bigint NOT NULL,
    -- It is over then by itself; NULL: somebody has to resume it.
    until  bigint,
    actor  text,
    reason text,
    PRIMARY KEY (what, name)
);

-- A row for each duty and worker, written by that worker only, once in a while.
CREATE TABLE mulligan_duties (
    duty     text COLLATE "C" NOT NULL,
    worker   text COLLATE "C" NOT NULL,
    at       bigint NOT NULL,
    took     bigint NOT NULL,
    did      bigint NOT NULL,
    interval bigint,
    batch    integer,
    actor    text,
    reason   text,
    PRIMARY KEY (duty, worker)
) WITH (fillfactor = 50);
