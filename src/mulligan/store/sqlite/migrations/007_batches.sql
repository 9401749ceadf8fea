-- Code of earlier schemas goes on working with this, but does not count: publish batches when all workers are new.

CREATE TABLE mulligan_batches (
    id           TEXT    PRIMARY KEY,
    name         TEXT    NOT NULL,
    owner        TEXT    NOT NULL DEFAULT '',
    state        TEXT    NOT NULL CHECK (state IN ('draft', 'processing', 'ready', 'partial', 'failed', 'expired')),
    generation   INTEGER NOT NULL DEFAULT 1,
    -- Counted when it is published: adding a member does not touch this row.
    total        INTEGER NOT NULL DEFAULT 0,
    -- No limits on these: a settle must never fail for the sake of a count.
    succeeded    INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    cancelled    INTEGER NOT NULL DEFAULT 0,
    success_at   REAL    NOT NULL,
    abort_above  REAL,
    on_settled   TEXT,
    created_at   INTEGER NOT NULL,
    published_at INTEGER,
    settled_at   INTEGER,
    aborted_at   INTEGER,
    expires_at   INTEGER,
    -- Published, and members may still be parked at its gate.
    admits       INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX mulligan_batches_admitting ON mulligan_batches (id) WHERE admits = 1;
CREATE INDEX mulligan_batches_open ON mulligan_batches (id) WHERE state IN ('draft', 'processing');
CREATE INDEX mulligan_batches_aborted ON mulligan_batches (id) WHERE aborted_at IS NOT NULL AND state = 'processing';
CREATE INDEX mulligan_batches_expiring ON mulligan_batches (expires_at)
    WHERE expires_at IS NOT NULL AND state IN ('ready', 'partial', 'failed');

CREATE INDEX mulligan_jobs_batch ON mulligan_jobs (batch, id) WHERE batch IS NOT NULL;
