-- Times are whole microseconds since 1970 in UTC. Everything a state promises is a constraint:
-- a result only when succeeded, an error only when failed, a lease only while running.

CREATE TABLE mulligan_jobs (
    seq             INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE,
    kind            TEXT    NOT NULL,
    owner           TEXT    NOT NULL DEFAULT '',
    queue           TEXT    NOT NULL,
    service         TEXT    NOT NULL DEFAULT '',
    priority        INTEGER NOT NULL,
    rank            INTEGER NOT NULL,
    state           TEXT    NOT NULL CHECK (state IN ('waiting', 'queued', 'running', 'succeeded', 'failed', 'cancelled')),
    gate            TEXT             CHECK (gate IS NULL OR state = 'waiting'),
    waiting_for     TEXT             CHECK ((waiting_for IS NOT NULL) = (state = 'waiting')),
    arguments       TEXT    NOT NULL CHECK (json_valid(arguments)),

    -- Grows at claim and never falls: part of the fence.
    attempt         INTEGER NOT NULL DEFAULT 0,
    failures        INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    crashes         INTEGER NOT NULL DEFAULT 0 CHECK (crashes >= 0),
    losses          INTEGER NOT NULL DEFAULT 0 CHECK (losses >= 0),
    snoozes         INTEGER NOT NULL DEFAULT 0 CHECK (snoozes >= 0),
    code_failures   TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(code_failures)),
    manual_retries  INTEGER NOT NULL DEFAULT 0,
    -- In force for this job, kept here because a reclaimer may not know the kind.
    max_attempts    INTEGER NOT NULL CHECK (max_attempts >= 1),
    max_crashes     INTEGER NOT NULL,
    max_snoozes     INTEGER NOT NULL,
    previous_delay  INTEGER,
    trigger         TEXT    NOT NULL DEFAULT 'automatic' CHECK (trigger IN ('automatic', 'manual')),

    submitted_at    INTEGER NOT NULL,
    enqueued_at     INTEGER NOT NULL,
    queued_at       INTEGER,
    due_at          INTEGER NOT NULL,
    deadline        INTEGER,
    started_at      INTEGER,
    last_attempt_at INTEGER,
    finished_at     INTEGER CHECK ((finished_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),
    updated_at      INTEGER NOT NULL,

    progress        REAL    NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    progress_text   TEXT    NOT NULL DEFAULT '',
    result          TEXT             CHECK (result IS NULL OR state = 'succeeded'),
    error_code      TEXT             CHECK ((error_code IS NOT NULL) = (state = 'failed')),
    error_class     TEXT             CHECK ((error_class IS NOT NULL) = (state = 'failed')),
    error_message   TEXT             CHECK ((error_message IS NOT NULL) = (state = 'failed')),
    error_group     TEXT             CHECK (error_group IS NULL OR state = 'failed'),

    batch           TEXT,
    dedupe_key      TEXT,
    dedupe_scope    TEXT    NOT NULL DEFAULT 'active' CHECK (dedupe_scope IN ('active', 'succeeded')),
    dedupe_until    INTEGER,
    tags            TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    cost            INTEGER NOT NULL DEFAULT 0,

    leased_by       TEXT             CHECK ((leased_by IS NOT NULL) = (state = 'running')),
    claim           INTEGER          CHECK ((claim IS NOT NULL) = (state = 'running')),
    lease_until     INTEGER          CHECK ((lease_until IS NOT NULL) = (state = 'running')),
    cancel_requested INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested = 0 OR state = 'running'),
    settled_attempt INTEGER,
    settled_by      TEXT
) STRICT;

-- Lanes of ready jobs; a million in one lane are not touched by a claim on another.
CREATE INDEX mulligan_jobs_ready ON mulligan_jobs (queue, kind, service, priority, rank, id) WHERE state = 'queued';
-- Jobs that no gate holds. A job for next year is one entry at the far end.
CREATE INDEX mulligan_jobs_due ON mulligan_jobs (due_at) WHERE state = 'waiting' AND gate IS NULL;
CREATE INDEX mulligan_jobs_running ON mulligan_jobs (leased_by, claim) WHERE state = 'running';
CREATE INDEX mulligan_jobs_deadline ON mulligan_jobs (deadline) WHERE deadline IS NOT NULL AND state IN ('waiting', 'queued');
CREATE INDEX mulligan_jobs_failed ON mulligan_jobs (id) WHERE state = 'failed';
CREATE INDEX mulligan_jobs_owned ON mulligan_jobs (owner, id) WHERE owner <> '';

CREATE UNIQUE INDEX mulligan_jobs_unique_live ON mulligan_jobs (owner, kind, dedupe_key)
    WHERE dedupe_key IS NOT NULL AND state IN ('waiting', 'queued', 'running');
CREATE UNIQUE INDEX mulligan_jobs_unique_succeeded ON mulligan_jobs (owner, kind, dedupe_key)
    WHERE dedupe_key IS NOT NULL AND dedupe_scope = 'succeeded' AND state IN ('waiting', 'queued', 'running', 'succeeded');
-- A period cannot be part of an index: the insert clears those that are over.
CREATE UNIQUE INDEX mulligan_jobs_unique_until ON mulligan_jobs (owner, kind, dedupe_key)
    WHERE dedupe_key IS NOT NULL AND dedupe_until IS NOT NULL;

CREATE TABLE mulligan_events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Chosen by whoever makes a move by hand, so that the move can be repeated.
    request  TEXT,
    type     TEXT    NOT NULL,
    job      TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    owner    TEXT    NOT NULL,
    attempt  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    actor    TEXT,
    code     TEXT,
    data     TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(data))
) STRICT;

CREATE INDEX mulligan_events_of_job ON mulligan_events (job, position);
CREATE UNIQUE INDEX mulligan_events_request ON mulligan_events (request) WHERE request IS NOT NULL;

CREATE TABLE mulligan_workers (
    incarnation TEXT    PRIMARY KEY,
    host        TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    queues      TEXT,
    kinds       TEXT    NOT NULL CHECK (json_valid(kinds)),
    concurrency INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
