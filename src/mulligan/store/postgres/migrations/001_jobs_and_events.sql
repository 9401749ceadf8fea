-- Times are whole microseconds since 1970 in UTC, as in every store of ours; the view at the end shows them to people.
-- Everything a state promises is a constraint: a result only when succeeded, an error only when failed, a lease only
-- while running.

CREATE TABLE mulligan_jobs (
    id              text COLLATE "C" PRIMARY KEY,
    kind            text COLLATE "C" NOT NULL,
    owner           text COLLATE "C" NOT NULL DEFAULT '',
    queue           text COLLATE "C" NOT NULL,
    service         text COLLATE "C" NOT NULL DEFAULT '',
    priority        integer NOT NULL,
    rank            bigint  NOT NULL,
    state           text COLLATE "C" NOT NULL,
    gate            text COLLATE "C",
    waiting_for     text,
    arguments       text    NOT NULL,

    -- Grows at claim and never falls: part of the fence.
    attempt         integer NOT NULL DEFAULT 0,
    failures        integer NOT NULL DEFAULT 0,
    crashes         integer NOT NULL DEFAULT 0,
    losses          integer NOT NULL DEFAULT 0,
    snoozes         integer NOT NULL DEFAULT 0,
    code_failures   text    NOT NULL DEFAULT '{}',
    manual_retries  integer NOT NULL DEFAULT 0,
    -- In force for this job, kept here because a reclaimer may not know the kind.
    max_attempts    integer NOT NULL,
    max_crashes     integer NOT NULL,
    max_snoozes     integer NOT NULL,
    previous_delay  bigint,
    trigger         text    NOT NULL DEFAULT 'automatic',

    submitted_at    bigint  NOT NULL,
    enqueued_at     bigint  NOT NULL,
    queued_at       bigint,
    due_at          bigint  NOT NULL,
    deadline        bigint,
    started_at      bigint,
    last_attempt_at bigint,
    finished_at     bigint,
    updated_at      bigint  NOT NULL,

    progress        double precision NOT NULL DEFAULT 0,
    progress_text   text    NOT NULL DEFAULT '',
    result          text,
    error_code      text COLLATE "C",
    error_class     text,
    error_message   text,
    error_group     text COLLATE "C",

    batch           text COLLATE "C",
    dedupe_key      text COLLATE "C",
    dedupe_scope    text    NOT NULL DEFAULT 'active',
    dedupe_until    bigint,
    tags            text    NOT NULL DEFAULT '[]',
    cost            integer NOT NULL DEFAULT 0,

    leased_by       text COLLATE "C",
    claim           bigint,
    lease_until     bigint,
    cancel_requested boolean NOT NULL DEFAULT false,
    settled_attempt integer,
    settled_by      text,

    CONSTRAINT mulligan_jobs_state CHECK (state IN ('waiting', 'queued', 'running', 'succeeded', 'failed', 'cancelled')),
    CONSTRAINT mulligan_jobs_waiting CHECK ((waiting_for IS NOT NULL) = (state = 'waiting') AND (gate IS NULL OR state = 'waiting')),
    CONSTRAINT mulligan_jobs_finished CHECK ((finished_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),
    CONSTRAINT mulligan_jobs_result CHECK (result IS NULL OR state = 'succeeded'),
    CONSTRAINT mulligan_jobs_error CHECK ((error_code IS NOT NULL) = (state = 'failed')
        AND (error_class IS NOT NULL) = (state = 'failed')
        AND (error_message IS NOT NULL) = (state = 'failed')
        AND (error_group IS NULL OR state = 'failed')),
    CONSTRAINT mulligan_jobs_lease CHECK ((leased_by IS NOT NULL) = (state = 'running')
        AND (claim IS NOT NULL) = (state = 'running')
        AND (lease_until IS NOT NULL) = (state = 'running')
        AND (NOT cancel_requested OR state = 'running')),
    CONSTRAINT mulligan_jobs_counters CHECK (failures >= 0 AND crashes >= 0 AND losses >= 0 AND snoozes >= 0
        AND max_attempts >= 1 AND progress BETWEEN 0 AND 1),
    CONSTRAINT mulligan_jobs_words CHECK (trigger IN ('automatic', 'manual') AND dedupe_scope IN ('active', 'succeeded'))
) WITH (fillfactor = 70);

-- Lanes of ready jobs; a million in one lane are not touched by a claim on another.
CREATE INDEX mulligan_jobs_ready ON mulligan_jobs (queue, kind, service, priority, rank, id) WHERE state = 'queued';
-- Jobs that no gate holds. A job for next year is one entry at the far end.
CREATE INDEX mulligan_jobs_due ON mulligan_jobs (due_at) WHERE state = 'waiting' AND gate IS NULL;
-- Not by lease_until: a beat must touch no indexed column.
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
    -- Transactions in the order of their ids; read below the oldest one under way, no event is ever skipped.
    xid      xid8    NOT NULL DEFAULT pg_current_xact_id(),
    seq      bigint  GENERATED ALWAYS AS IDENTITY,
    -- Chosen by whoever makes a move by hand, so that the move can be repeated.
    request  text COLLATE "C",
    type     text    NOT NULL,
    job      text COLLATE "C" NOT NULL,
    kind     text    NOT NULL,
    owner    text    NOT NULL,
    attempt  integer NOT NULL,
    at       bigint  NOT NULL,
    actor    text,
    code     text,
    data     text    NOT NULL DEFAULT '{}',
    PRIMARY KEY (xid, seq)
);

CREATE INDEX mulligan_events_of_job ON mulligan_events (job, seq);
CREATE UNIQUE INDEX mulligan_events_request ON mulligan_events (request) WHERE request IS NOT NULL;

-- Added to transaction ids, so that positions go on after a restore into a new cluster.
CREATE TABLE mulligan_log (
    base bigint NOT NULL
);
INSERT INTO mulligan_log VALUES (0);

CREATE TABLE mulligan_workers (
    incarnation text COLLATE "C" PRIMARY KEY,
    host        text    NOT NULL,
    pid         integer NOT NULL,
    queues      text,
    kinds       text    NOT NULL,
    concurrency integer NOT NULL,
    started_at  bigint  NOT NULL,
    seen_at     bigint  NOT NULL
) WITH (fillfactor = 50);

CREATE VIEW mulligan_jobs_for_people AS
SELECT id, kind, owner, queue, priority, state, waiting_for, attempt, failures, crashes, losses, snoozes, manual_retries,
    to_timestamp(submitted_at / 1e6) AS submitted_at, to_timestamp(due_at / 1e6) AS due_at,
    to_timestamp(started_at / 1e6) AS started_at, to_timestamp(finished_at / 1e6) AS finished_at,
    to_timestamp(lease_until / 1e6) AS lease_until, leased_by, error_code, error_message, arguments, result
FROM mulligan_jobs;
