-- Code of earlier schemas goes on working with this, but does not count: publish batches when all workers are new.

CREATE TABLE mulligan_batches (
    id           text COLLATE "C" PRIMARY KEY,
    name         text    NOT NULL,
    owner        text COLLATE "C" NOT NULL DEFAULT '',
    state        text COLLATE "C" NOT NULL,
    generation   integer NOT NULL DEFAULT 1,
    -- Counted when it is published: adding a member does not touch this row.
    total        bigint  NOT NULL DEFAULT 0,
    -- No limits on these: a settle must never fail for the sake of a count.
    succeeded    bigint  NOT NULL DEFAULT 0,
    failed       bigint  NOT NULL DEFAULT 0,
    cancelled    bigint  NOT NULL DEFAULT 0,
    success_at   double precision NOT NULL,
    abort_above  double precision,
    on_settled   text,
    created_at   bigint  NOT NULL,
    published_at bigint,
    settled_at   bigint,
    aborted_at   bigint,
    expires_at   bigint,
    -- Published, and members may still be parked at its gate.
    admits       boolean NOT NULL DEFAULT false,

    CONSTRAINT mulligan_batches_state CHECK (state IN ('draft', 'processing', 'ready', 'partial', 'failed', 'expired'))
-- Counts touch no indexed column, and find their place in the same page.
) WITH (fillfactor = 50);

CREATE INDEX mulligan_batches_admitting ON mulligan_batches (id) WHERE admits;
CREATE INDEX mulligan_batches_open ON mulligan_batches (id) WHERE state IN ('draft', 'processing');
CREATE INDEX mulligan_batches_aborted ON mulligan_batches (id) WHERE aborted_at IS NOT NULL AND state = 'processing';
CREATE INDEX mulligan_batches_expiring ON mulligan_batches (expires_at)
    WHERE expires_at IS NOT NULL AND state IN ('ready', 'partial', 'failed');

CREATE INDEX mulligan_jobs_batch ON mulligan_jobs (batch, id) WHERE batch IS NOT NULL;
