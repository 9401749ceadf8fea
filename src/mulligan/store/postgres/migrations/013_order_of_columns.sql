-- Code of earlier schemas goes on working with this: it asks for columns by their names.

-- The same columns in another order. An update looks at each indexed one, before and after: those of fixed size come first, then what is
-- never NULL, then the rest of them. It logs what lies between the first and the last byte that differ: what claims and settles change
-- stands together. A row keeps room for its next versions in its page, and its id in the index.
CREATE TABLE mulligan_jobs_in_order (
    rank            bigint  NOT NULL,
    due_at          bigint  NOT NULL,
    service_epoch   bigint  NOT NULL DEFAULT 0,
    submitted_at    bigint  NOT NULL,
    enqueued_at     bigint  NOT NULL,
    priority        integer NOT NULL,
    failures        integer NOT NULL DEFAULT 0,
    crashes         integer NOT NULL DEFAULT 0,
    losses          integer NOT NULL DEFAULT 0,
    snoozes         integer NOT NULL DEFAULT 0,
    manual_retries  integer NOT NULL DEFAULT 0,
    -- In force for this job, kept here because a reclaimer may not know the kind.
    max_attempts    integer NOT NULL,
    max_crashes     integer NOT NULL,
    max_snoozes     integer NOT NULL,
    cost            integer NOT NULL DEFAULT 0,
    is_limited      boolean NOT NULL DEFAULT false,
    cancel_requested boolean NOT NULL DEFAULT false,

    service         text COLLATE "C" NOT NULL DEFAULT '',
    owner           text COLLATE "C" NOT NULL DEFAULT '',
    queue           text COLLATE "C" NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    dedupe_scope    text    NOT NULL DEFAULT 'active',

    state           text COLLATE "C" NOT NULL,

    gate            text COLLATE "C",
    waiting_for     text,
    deadline        bigint,
    dedupe_key      text COLLATE "C",
    dedupe_until    bigint,
    batch           text COLLATE "C",
    leased_by       text COLLATE "C",
    claim           bigint,
    finished_at     bigint,

    updated_at      bigint  NOT NULL,
    progress        double precision NOT NULL DEFAULT 0,
    -- Grows at claim and never falls: part of the fence.
    attempt         integer NOT NULL DEFAULT 0,
    settled_attempt integer,
    lease_until     bigint,
    started_at      bigint,
    last_attempt_at bigint,
    settled_by      text,
    result          text,

    queued_at       bigint,
    previous_delay  bigint,
    timeout         bigint,
    trigger         text    NOT NULL DEFAULT 'automatic',
    arguments       text    NOT NULL,
    error_code      text COLLATE "C",
    error_class     text,
    error_message   text,
    error_group     text COLLATE "C",
    code_failures   text    NOT NULL DEFAULT '{}',
    progress_text   text    NOT NULL DEFAULT '',
    tags            text    NOT NULL DEFAULT '[]',
    on_failed       text,
    version         text,

    -- What each state promises.
    CONSTRAINT mulligan_jobs_state CHECK (CASE state
        WHEN 'queued' THEN NOT cancel_requested AND num_nonnulls(waiting_for, gate, leased_by, claim, lease_until,
            finished_at, result, error_code, error_class, error_message, error_group) = 0
        WHEN 'running' THEN num_nulls(leased_by, claim, lease_until) = 0 AND num_nonnulls(waiting_for, gate,
            finished_at, result, error_code, error_class, error_message, error_group) = 0
        WHEN 'succeeded' THEN NOT cancel_requested AND finished_at IS NOT NULL AND num_nonnulls(waiting_for, gate,
            leased_by, claim, lease_until, error_code, error_class, error_message, error_group) = 0
        WHEN 'waiting' THEN NOT cancel_requested AND waiting_for IS NOT NULL AND num_nonnulls(leased_by, claim, lease_until,
            finished_at, result, error_code, error_class, error_message, error_group) = 0
        WHEN 'failed' THEN NOT cancel_requested AND num_nulls(finished_at, error_code, error_class, error_message) = 0
            AND num_nonnulls(waiting_for, gate, leased_by, claim, lease_until, result) = 0
        WHEN 'cancelled' THEN NOT cancel_requested AND finished_at IS NOT NULL AND num_nonnulls(waiting_for, gate,
            leased_by, claim, lease_until, result, error_code, error_class, error_message, error_group) = 0
        ELSE false
    END),
    CONSTRAINT mulligan_jobs_counters CHECK (least(failures, crashes, losses, snoozes, max_attempts - 1) >= 0
        AND progress BETWEEN 0 AND 1),
    CONSTRAINT mulligan_jobs_words CHECK (trigger IN ('automatic', 'manual') AND dedupe_scope IN ('active', 'succeeded'))
) WITH (fillfactor = 50);

INSERT INTO mulligan_jobs_in_order (rank, due_at, service_epoch, submitted_at, enqueued_at, priority, failures, crashes, losses, snoozes, manual_retries,
    max_attempts, max_crashes, max_snoozes, cost, is_limited, cancel_requested, service, owner, queue, kind, id, dedupe_scope,
    state, gate, waiting_for, deadline, dedupe_key, dedupe_until, batch, leased_by, claim, finished_at, updated_at, progress,
    attempt, settled_attempt, lease_until, started_at, last_attempt_at, settled_by, result, queued_at, previous_delay, timeout,
    trigger, arguments, error_code, error_class, error_message, error_group, code_failures, progress_text, tags, on_failed,
    version)
SELECT rank, due_at, service_epoch, submitted_at, enqueued_at, priority, failures, crashes, losses, snoozes, manual_retries,
    max_attempts, max_crashes, max_snoozes, cost, is_limited, cancel_requested, service, owner, queue, kind, id, dedupe_scope,
    state, gate, waiting_for, deadline, dedupe_key, dedupe_until, batch, leased_by, claim, finished_at, updated_at, progress,
    attempt, settled_attempt, lease_until, started_at, last_attempt_at, settled_by, result, queued_at, previous_delay, timeout,
    trigger, arguments, error_code, error_class, error_message, error_group, code_failures, progress_text, tags, on_failed,
    version
FROM mulligan_jobs;

CREATE VIEW mulligan_jobs_in_order_for_people AS
SELECT id, kind, owner, queue, priority, state, waiting_for, attempt, failures, crashes, losses, snoozes, manual_retries,
    to_timestamp(submitted_at / 1e6) AS submitted_at, to_timestamp(due_at / 1e6) AS due_at,
    to_timestamp(started_at / 1e6) AS started_at, to_timestamp(finished_at / 1e6) AS finished_at,
    to_timestamp(lease_until / 1e6) AS lease_until, leased_by, error_code, error_message, arguments, result
FROM mulligan_jobs_in_order;

-- Whoever might use them may use these.
DO $$
DECLARE
    granted text;
BEGIN
    FOR granted IN
        SELECT format('GRANT %s ON %s TO %s%s', privilege_type, replace(relname, 'mulligan_jobs', 'mulligan_jobs_in_order'),
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
            CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM pg_class, aclexplode(relacl)
        WHERE oid IN ('mulligan_jobs'::regclass, 'mulligan_jobs_for_people'::regclass)
    LOOP
        EXECUTE granted;
    END LOOP;
END
$$;

DROP VIEW mulligan_jobs_for_people;
DROP TABLE mulligan_jobs;
ALTER TABLE mulligan_jobs_in_order RENAME TO mulligan_jobs;
ALTER VIEW mulligan_jobs_in_order_for_people RENAME TO mulligan_jobs_for_people;

ALTER TABLE mulligan_jobs ADD CONSTRAINT mulligan_jobs_pkey PRIMARY KEY (id) WITH (fillfactor = 40);

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
-- Due, but a gate (a pause, say) refuses them: out of the due index, so that they stand in nobody's way.
CREATE INDEX mulligan_jobs_parked ON mulligan_jobs (gate, priority, rank) WHERE state = 'waiting' AND gate IS NOT NULL;
-- Jobs that may be cleared away, by when they and their dedupe key's period were over. A succeeded job that holds its key for
-- good is not among them: it would stand at the head of the list for ever.
CREATE INDEX mulligan_jobs_over ON mulligan_jobs (state, greatest(finished_at, dedupe_until))
    WHERE state IN ('succeeded', 'failed', 'cancelled')
      AND (state <> 'succeeded' OR dedupe_scope <> 'succeeded' OR dedupe_key IS NULL);
-- Permits: running jobs of a half-open service.
CREATE INDEX mulligan_jobs_permits ON mulligan_jobs (service, service_epoch) WHERE state = 'running' AND service <> '';
-- Retries that passed the door and were not heard of.
CREATE INDEX mulligan_jobs_retried ON mulligan_jobs (service) WHERE service <> '' AND failures > 0 AND state IN ('queued', 'running');
CREATE INDEX mulligan_jobs_batch ON mulligan_jobs (batch, id) WHERE batch IS NOT NULL;
-- Places are counted from the jobs themselves. Jobs that no limit concerns are in none of these.
CREATE INDEX mulligan_jobs_of_kind ON mulligan_jobs (kind) WHERE is_limited AND state IN ('queued', 'running');
CREATE INDEX mulligan_jobs_of_queue ON mulligan_jobs (queue) WHERE is_limited AND state IN ('queued', 'running');
CREATE INDEX mulligan_jobs_of_owner ON mulligan_jobs (owner) WHERE is_limited AND state IN ('queued', 'running');
-- Let in, and waiting for their service.
CREATE INDEX mulligan_jobs_of_service ON mulligan_jobs (service) WHERE is_limited AND state = 'queued' AND service <> '';
-- Retries that passed the budget of their service and wait for a place.
CREATE INDEX mulligan_jobs_retrying ON mulligan_jobs (service)
    WHERE state = 'waiting' AND waiting_for = 'limit' AND failures > 0 AND service <> '';
-- Whether a name is still in use. By an expression, so that it serves this question alone: others that ask for waiting jobs of a service
-- have narrower indexes, and SQLite would take this one instead.
CREATE INDEX mulligan_jobs_waiting_service ON mulligan_jobs ((service || '')) WHERE state = 'waiting' AND service <> '';
