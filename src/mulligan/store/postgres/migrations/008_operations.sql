-- Code of earlier schemas goes on working with this: it only does not know of redrives, and runs their jobs like any other.

CREATE TABLE mulligan_operations (
    id           text COLLATE "C" PRIMARY KEY,
    -- Chosen by the caller: asking again is no second operation.
    request      text COLLATE "C" NOT NULL,
    -- Whose jobs it may touch; NULL: everybody's.
    owner        text,
    filter       text    NOT NULL,
    rate         text    NOT NULL,
    canary       integer NOT NULL,
    abort_above  double precision NOT NULL,
    actor        text,
    reason       text,
    state        text    NOT NULL CHECK (state IN ('canary', 'running', 'done', 'stopped', 'cancelled')),
    matched      bigint  NOT NULL,
    matches      text    NOT NULL,
    sample       text    NOT NULL,
    retried      bigint  NOT NULL,
    skipped      text    NOT NULL,
    succeeded    bigint  NOT NULL,
    failed_again bigint  NOT NULL,
    silent       bigint  NOT NULL,
    because      text,
    began_at     bigint  NOT NULL,
    ended_at     bigint           CHECK ((ended_at IS NULL) = (state IN ('canary', 'running'))),
    -- The kinds that are left, each with the last job that was looked at.
    cursors      text    NOT NULL,
    -- A sample of the retried jobs whose next attempt has not ended, and the newest answers.
    watched      text    NOT NULL,
    recent       text    NOT NULL,
    paced_at     bigint  NOT NULL,
    -- Who is at work on it: the others leave it alone for so long.
    held_by      text,
    held_until   bigint,
    -- Grows with each change: who read another one writes nothing.
    version      bigint  NOT NULL
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX mulligan_operations_request ON mulligan_operations (coalesce('/' || owner, ''), request);
CREATE INDEX mulligan_operations_active ON mulligan_operations (id) WHERE state IN ('canary', 'running');
