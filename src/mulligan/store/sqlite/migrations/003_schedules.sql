-- Code of schema 2 goes on working with this: it does not know of schedules, and runs their jobs like any other.

CREATE TABLE mulligan_schedules (
    name       TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    expression TEXT NOT NULL,
    timezone   TEXT NOT NULL,
    missed     TEXT NOT NULL,
    arguments  TEXT NOT NULL,
    -- Not run yet: it becomes a job in the transaction that writes the one after it here.
    next_tick  INTEGER NOT NULL,
    last_tick  INTEGER,
    last_job   TEXT,
    -- Who brought this definition, and when he began: of two that differ, the later wins.
    planned_by TEXT NOT NULL,
    since      INTEGER NOT NULL,
    -- When a worker that has this definition last said so: without any, it is orphaned.
    seen_at    INTEGER NOT NULL,
    -- Grows with each change: who read another one writes nothing.
    version    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
