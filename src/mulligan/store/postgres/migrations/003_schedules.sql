-- Code of schema 2 goes on working with this: it does not know of schedules, and runs their jobs like any other.

CREATE TABLE mulligan_schedules (
    name       text COLLATE "C" PRIMARY KEY,
    kind       text NOT NULL,
    expression text NOT NULL,
    timezone   text NOT NULL,
    missed     text NOT NULL,
    arguments  text NOT NULL,
    -- Not run yet: it becomes a job in the transaction that writes the one after it here.
    next_tick  bigint NOT NULL,
    last_tick  bigint,
    last_job   text,
    -- Who brought this definition, and when he began: of two that differ, the later wins.
    planned_by text NOT NULL,
    since      bigint NOT NULL,
    -- When a worker that has this definition last said so: without any, it is orphaned.
    seen_at    bigint NOT NULL,
    -- Grows with each change: who read another one writes nothing.
    version    bigint NOT NULL
) WITH (fillfactor = 50);
