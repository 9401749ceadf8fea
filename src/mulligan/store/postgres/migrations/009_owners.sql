-- Code of earlier schemas goes on working with this: it only takes no turns.

-- V of the fair queues: the highest rank claimed. Never falls.
CREATE TABLE mulligan_turns (
    queue    text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    rank     bigint  NOT NULL,
    PRIMARY KEY (queue, priority)
) WITH (fillfactor = 50);

-- The last rank of an owner in a fair queue; `taken` is by how much it grew last.
CREATE TABLE mulligan_shares (
    queue    text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    owner    text COLLATE "C" NOT NULL,
    rank     bigint  NOT NULL,
    taken    bigint  NOT NULL,
    PRIMARY KEY (queue, priority, owner)
);
CREATE INDEX mulligan_shares_past ON mulligan_shares (queue, priority, rank);

-- How fast owners submit: how many jobs were left in the bucket of an owner at a time, none yet is all of them; and when it
-- will be full again.
CREATE TABLE mulligan_submissions (
    owner     text COLLATE "C" PRIMARY KEY,
    remaining double precision,
    at        bigint NOT NULL,
    full_at   bigint NOT NULL
);
CREATE INDEX mulligan_submissions_full ON mulligan_submissions (full_at);
