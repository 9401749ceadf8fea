-- Code of earlier schemas goes on working with this: it only does not know of redrives, and runs their jobs like any other.

CREATE TABLE mulligan_operations (
    id           TEXT    PRIMARY KEY,
    -- Chosen by the caller: asking again is no second operation.
    request      TEXT    NOT NULL,
    -- Whose jobs it may touch; NULL: everybody's.
    owner        TEXT,
    filter       TEXT    NOT NULL CHECK (json_valid(filter)),
    rate         TEXT    NOT NULL,
    canary       INTEGER NOT NULL,
    abort_above  REAL    NOT NULL,
    actor        TEXT,
    reason       TEXT,
    state        TEXT    NOT NULL CHECK (state IN ('canary', 'running', 'done', 'stopped', 'cancelled')),
    matched      INTEGER NOT NULL,
    matches      TEXT    NOT NULL,
    sample       TEXT    NOT NULL,
    retried      INTEGER NOT NULL,
    skipped      TEXT    NOT NULL,
    succeeded    INTEGER NOT NULL,
    failed_again INTEGER NOT NULL,
    silent       INTEGER NOT NULL,
    because      TEXT,
    began_at     INTEGER NOT NULL,
    ended_at     INTEGER          CHECK ((ended_at IS NULL) = (state IN ('canary', 'running'))),
    -- The kinds that are left, each with the last job that was looked at.
    cursors      TEXT    NOT NULL,
    -- A sample of the retried jobs whose next attempt has not ended, and the newest answers.
    watched      TEXT    NOT NULL,
    recent       TEXT    NOT NULL,
    paced_at     INTEGER NOT NULL,
    -- Who is at work on it: the others leave it alone for so long.
    held_by      TEXT,
    held_until   INTEGER,
    -- Grows with each change: who read another one writes nothing.
    version      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX mulligan_operations_request ON mulligan_operations (coalesce('/' || owner, ''), request);
CREATE INDEX mulligan_operations_active ON mulligan_operations (id) WHERE state IN ('canary', 'running');
